"""``broker.json`` and ``driver.json``, by which a broker tells its home where it is, and the tokens of jobs. Pure.

No error, repr or str made here holds a token.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dbg_dial.endpoint import (
    TOKEN_ROLES,
    Endpoint,
    TokenRole,
    canonical_pin,
    is_token,
    parse_endpoint,
)
from dbg_wire.errors import BadEndpoint, BadSecretFile, printable
from dbg_wire.limits import MAX_BROKERS

RENDEZVOUS_SCHEMA = 1
"""Version of ``broker.json``; grows when an older reader would misread a newer file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """The contents of ``broker.json``; a copy that is given to another user may lack tokens.

    ``driver_tokens`` are those of ``driver.json``, which no rank opens. ``fingerprint`` is that of the certificate that
    it shows. ``brokers`` are others that know the same ranks.
    """

    url: str
    host: str
    pid: int
    fingerprint: str
    tokens: Mapping[TokenRole, str] = field(repr=False)
    driver_tokens: Mapping[TokenRole, str] = field(default_factory=dict, repr=False)
    brokers: tuple[Endpoint, ...] = ()

    def token(self, role: TokenRole) -> tuple[str, str] | None:
        """Return the token of a role and where it is; None without one."""
        if role in self.driver_tokens:
            return self.driver_tokens[role], "driver.json"
        return (self.tokens[role], "broker.json") if role in self.tokens else None

    @property
    def endpoint(self) -> Endpoint:
        """Return the address with its pin. Raise BadEndpoint if ``url`` can't be read."""
        return replace(parse_endpoint(self.url, source="broker.json"), fingerprint=self.fingerprint)


def parse_rendezvous(text: str, path: str) -> Rendezvous:
    """Read ``broker.json``; unknown fields are ignored. Raise BadSecretFile, naming ``path`` and never a token."""
    document = _parse_document(text, path)
    url, fingerprint = _parse_rendezvous_address(document, path)
    host, pid = document.get("host"), document.get("pid")
    if not isinstance(host, str) or not host or not host.isprintable():
        raise _bad_rendezvous(path, "names no host")
    if type(pid) is not int or pid < 1:
        raise _bad_rendezvous(path, "names no pid")
    return Rendezvous(
        url=url,
        host=host,
        pid=pid,
        fingerprint=fingerprint,
        tokens=_parse_tokens(document, path),
        brokers=_brokers(document, path),
    )


def _brokers(document: Mapping[str, Any], path: str) -> tuple[Endpoint, ...]:
    """Return the other brokers that the file names."""
    listed = document.get("brokers", [])
    if not isinstance(listed, list) or len(listed) > MAX_BROKERS:
        raise _bad_rendezvous(path, f"has brokers that are not a list of up to {MAX_BROKERS}")
    found = []
    for one in listed:
        url, pin = (one.get("url"), one.get("fingerprint")) if isinstance(one, dict) else (None, None)
        if not (isinstance(url, str) and isinstance(pin, str)):
            raise _bad_rendezvous(path, "names another broker without its url or fingerprint")
        try:
            found.append(known_endpoint(url, pin))
        except BadEndpoint as error:
            raise _bad_rendezvous(path, f"names another broker that can't be used: {error.what}") from None
    return tuple(found)


def known_endpoint(url: str, fingerprint: str) -> Endpoint:
    """Return the endpoint of a broker that another one names. Raise BadEndpoint if it can't be one."""
    endpoint, pin = parse_endpoint(url, source="its url"), canonical_pin(fingerprint)
    if pin is None:
        raise BadEndpoint(f"{endpoint.url} does not come with its fingerprint", "start that broker again")
    return replace(endpoint, fingerprint=pin)


def known_endpoints(brokers: Iterable[tuple[str, str]]) -> tuple[Endpoint, ...]:
    """Return the endpoints of brokers that a broker names by address and fingerprint, without those that are none."""
    found = []
    for url, fingerprint in brokers:
        with suppress(BadEndpoint):
            found.append(known_endpoint(url, fingerprint))
    return tuple(found)


def parse_driver_tokens(text: str, path: str) -> Mapping[TokenRole, str]:
    """Read ``driver.json``; unknown fields are ignored. Raise BadSecretFile, naming ``path`` and never a token."""
    return _parse_tokens(_parse_document(text, path), path)


def _parse_document(text: str, path: str) -> dict[str, Any]:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _bad_rendezvous(path, "is not a JSON object")
    schema = document.get("schema")
    if type(schema) is not int or schema != RENDEZVOUS_SCHEMA:
        stated = str(schema) if type(schema) is int and abs(schema) < 10**9 else "none"
        raise BadSecretFile(
            f"{printable(path)} has schema {stated}, and this release reads schema {RENDEZVOUS_SCHEMA}",
            "install the same dbg-broker release on both ends",
        )
    return document


def _parse_tokens(document: Mapping[str, Any], path: str) -> dict[TokenRole, str]:
    tokens = document.get("tokens", {})
    if not isinstance(tokens, dict):
        raise _bad_rendezvous(path, "has tokens that are not an object")
    known: dict[TokenRole, str] = {}
    for role in (role for role in TOKEN_ROLES if role in tokens):
        if not (isinstance(tokens[role], str) and is_token(tokens[role])):
            raise _bad_rendezvous(path, f"has a {role} token that can't be one")
        known[role] = tokens[role]
    return known


def _parse_rendezvous_address(document: Mapping[str, Any], path: str) -> tuple[str, str]:
    url, pin = document.get("url"), document.get("fingerprint")
    try:
        endpoint = parse_endpoint(url if isinstance(url, str) else "", source="its url")
    except BadEndpoint as error:
        raise _bad_rendezvous(path, f"can't be used: {error.what}") from None
    fingerprint = canonical_pin(pin) if isinstance(pin, str) else None
    if fingerprint is None:
        raise _bad_rendezvous(path, "has a fingerprint that is not sha256: and 64 hexadecimal digits")
    return endpoint.url, fingerprint


def _bad_rendezvous(path: str, why: str) -> BadSecretFile:
    return BadSecretFile(f"{printable(path)} {why}", "remove it and start `dbg-broker serve` again, which rewrites it")


def format_rendezvous(rendezvous: Rendezvous) -> str:
    """Return the text of ``broker.json``, from which :func:`parse_rendezvous` makes an equal Rendezvous."""
    document: dict[str, Any] = {
        "schema": RENDEZVOUS_SCHEMA,
        "url": rendezvous.url,
        "host": rendezvous.host,
        "pid": rendezvous.pid,
        "fingerprint": rendezvous.fingerprint,
    }
    if rendezvous.brokers:
        document["brokers"] = [{"url": one.url, "fingerprint": one.fingerprint} for one in rendezvous.brokers]
    document["tokens"] = _in_order(rendezvous.tokens)
    return json.dumps(document, separators=(",", ":"))


def format_driver_tokens(tokens: Mapping[TokenRole, str]) -> str:
    """Return the text of ``driver.json``, from which :func:`parse_driver_tokens` reads the same tokens."""
    return json.dumps({"schema": RENDEZVOUS_SCHEMA, "tokens": _in_order(tokens)}, separators=(",", ":"))


def _in_order(tokens: Mapping[TokenRole, str]) -> dict[TokenRole, str]:
    return {role: tokens[role] for role in TOKEN_ROLES if role in tokens}


JOB_MARK = "job."
"""Prefix of a signed token that admits ranks of one job; the job's name and an HMAC by the rank's token follow."""

JOB_TOKENS_DIRECTORY = "job-tokens"
"""The directory of a home with a file for the token of each job."""


def job_token(rank_token: str, job: str) -> str:
    """Return a token for ranks of one job. The home's token of ranks makes it, and tells that it is right.

    No list holds such tokens, so that a run needs no change of a broker that serves already.
    """
    return f"{JOB_MARK}{job}.{code_of(rank_token, f'dbg-broker job: {job}')}"


def code_of(token: str, what: str) -> str:
    """Return a code that only a holder of the token can make; ``what`` begins with the purpose of the code."""
    import hashlib  # loads OpenSSL, which a rank that finds its broker does not need
    import hmac

    code = hmac.new(token.encode(), what.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return base64.urlsafe_b64encode(code.digest()).decode().rstrip("=")
