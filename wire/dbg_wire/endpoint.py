"""The broker's address, the token that the broker checks, and the fingerprint by which a peer checks the broker.

Pure: files and variables are handed in, so that agent, terminal and broker read them by the same rules. No error,
repr or str made here holds a token.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dbg_wire.environment import BROKER, TOKEN, TOKEN_FILE
from dbg_wire.errors import BadEndpoint, BadInput, BadSecretFile, NoBroker, printable
from dbg_wire.throw_away import WHERE_THEY_ARE, is_throw_away

DEFAULT_PORT = 6900
"""Next to the 6899 of ``pudb.remote``, so that both are easy to remember."""

RENDEZVOUS_SCHEMA = 1
"""Version of ``broker.json``; grows when an older reader would misread a newer file."""

MIN_TOKEN = 16
MAX_TOKEN = 512
"""Characters of a token: a shorter one can be guessed, a longer text is a wrong file."""

TokenRole = Literal["rank", "driver", "watcher"]
TOKEN_ROLES: tuple[TokenRole, ...] = ("rank", "driver", "watcher")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,11})://")
_AUTHORITY = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>.*))?")
_SIX = re.compile(r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]{1,15})?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_PIN = re.compile(r"sha256:((?:[0-9a-f]{2}:){31}[0-9a-f]{2}|[0-9a-f]{64})", re.IGNORECASE | re.ASCII)
_PIN_LIKE = re.compile(r"sha256:[0-9a-f:]{0,128}", re.IGNORECASE | re.ASCII)
_TOKEN = re.compile(rf"[!-~]{{{MIN_TOKEN},{MAX_TOKEN}}}")
_HOW_TO_WRITE = "write host:port or wss://host:port, then #sha256:… as `dbg-broker serve` prints it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A broker's address and the fingerprint its certificate must have (None: not given, or plain ws)."""

    host: str
    port: int
    secure: bool
    fingerprint: str | None

    @property
    def url(self) -> str:
        """Return the address as a URL without path or fingerprint, e.g. ``wss://[::1]:6900``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.secure else 'ws'}://{host}:{self.port}"

    def __str__(self) -> str:
        return self.url if self.fingerprint is None else f"{self.url}#{self.fingerprint}"


def parse_endpoint(text: str, *, source: str) -> Endpoint:
    """Read ``host``, ``host:port``, ``wss://host:port`` or ``ws://host:port``, each with ``#sha256:…`` or without.

    ``source`` says in an error where the text came from. Raise BadEndpoint, which quotes the text without the parts
    into which a user may have put a token.
    """

    def bad(why: str, remedy: str = _HOW_TO_WRITE) -> BadEndpoint:
        return BadEndpoint(f"{_named(source, _address_shown(text))} {why}", remedy)

    if not text.isprintable() or " " in text:
        raise bad("contains a space or a control character")
    found = _SCHEME.match(text)
    scheme, rest = (found[1].lower(), text[found.end() :]) if found else ("wss", text)
    if scheme not in ("wss", "ws"):
        raise bad("is not a wss:// or ws:// address")
    if "@" in rest:
        raise bad("contains user info, which an address has no room for", "put the token into DBG_TOKEN_FILE")
    address, hash_sign, pin = rest.partition("#")
    if "?" in address:
        raise bad("contains a query, which an address has no room for", "put the token into DBG_TOKEN_FILE")
    authority, _, path = address.partition("/")
    if path:
        raise bad("contains a path, which an address has no room for")
    fingerprint = _canonical_pin(pin) if hash_sign else None
    if hash_sign and fingerprint is None:
        raise bad("has a fingerprint that is not sha256: and 64 hexadecimal digits")
    if fingerprint and scheme == "ws":
        raise bad("has a fingerprint, but ws:// shows no certificate", "write wss://, or leave the fingerprint out")
    host, port = _host_and_port(authority, bad)
    return Endpoint(host=host, port=port, secure=scheme == "wss", fingerprint=fingerprint)


def _host_and_port(authority: str, bad: Callable[..., BadEndpoint]) -> tuple[str, int]:
    if (six := _six(authority)) is not None:
        raise bad("is an IPv6 address without brackets", f"write [{six}]:{DEFAULT_PORT}")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise bad("is not host:port")
    if not authority or found["name"] == "":
        raise bad("has no host")
    host = _six(found["six"]) if found["name"] is None else _name(found["name"])
    if host is None:
        raise bad("has a host that is neither a name nor an IP address")
    port = found["port"]
    if port is None:
        return host, DEFAULT_PORT
    if not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise bad("has a port that is not a number from 1 to 65535")
    return host, int(port)


def _six(text: str) -> str | None:
    try:
        return str(ipaddress.IPv6Address(text)) if _SIX.fullmatch(text) else None
    except ValueError:
        return None


def _name(text: str) -> str | None:
    if not _NAME.fullmatch(text):
        return None
    if re.fullmatch(r"[0-9.]+", text):
        # A bare number is an old form of an address: `6900` is 0.0.26.244. The user has forgotten the host.
        try:
            return str(ipaddress.IPv4Address(text))
        except ValueError:
            return None
    return text.lower()


def _named(source: str, shown: str) -> str:
    return f"{source}{'' if source.endswith('=') else ' '}{printable(shown)!r}"


def _address_shown(text: str) -> str:
    """Return an address for an error, without user info, path, query, and any port long enough to be a token."""
    found = _SCHEME.match(text)
    scheme = found[0] if found else ""
    rest = text[len(scheme) :]
    if "@" in rest:
        return f"{scheme}…@…"
    authority, tail = re.fullmatch(r"([^/?#\\\s]*)(.*)", rest, re.DOTALL).groups("")  # type: ignore[union-attr]
    first, *more = authority.split(":")
    authority = ":".join([first, *(piece if len(piece) < MIN_TOKEN else "…" for piece in more)])
    if tail and not _PIN_LIKE.fullmatch(tail.removeprefix("/").removeprefix("#")):
        tail = f"{tail[0]}…"
    return f"{scheme}{authority}{tail}"


def parse_fingerprint(text: str, *, source: str) -> str:
    """Return a certificate's fingerprint as ``sha256:`` and 64 lower-case digits; colons and upper case are accepted.

    Raise BadEndpoint, naming ``source``.
    """
    pin = _canonical_pin(text)
    if pin is None:
        shown = text if _PIN_LIKE.fullmatch(text) else "…"
        raise BadEndpoint(
            f"{_named(source, shown)} is not a fingerprint", "write sha256: and 64 hexadecimal digits, as `serve` does"
        )
    return pin


def _canonical_pin(text: str) -> str | None:
    found = _PIN.fullmatch(text)
    return f"sha256:{found[1].replace(':', '').lower()}" if found else None


def fingerprint_of(der: bytes) -> str:
    """Return the fingerprint of a certificate in DER form, as :func:`parse_fingerprint` does."""
    import hashlib  # loads OpenSSL, which most programs that read an address don't need

    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def same_fingerprint(a: str, b: str) -> bool:
    """Compare two canonical fingerprints in constant time."""
    import hmac

    return hmac.compare_digest(a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass"))


def parse_token(text: str, *, source: str) -> str:
    """Return the token without the line end that an editor adds. Raise BadSecretFile, which never quotes the text."""
    token = text.rstrip("\r\n")
    if not _TOKEN.fullmatch(token):
        raise BadSecretFile(
            f"{printable(source)} does not hold a token ({MIN_TOKEN} to {MAX_TOKEN} visible ASCII characters)",
            "put there the one line that `dbg-broker token` prints on the broker's host",
        )
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """The contents of ``broker.json``; a copy that is given to another user may lack tokens.

    ``driver_tokens`` are those of ``driver.json``, which no rank opens. Before release 0.2 they were among ``tokens``.
    ``minor`` is the protocol minor of the broker, 0 where the file does not tell it.
    """

    url: str
    host: str
    pid: int
    fingerprint: str | None
    tokens: Mapping[TokenRole, str] = field(repr=False)
    driver_tokens: Mapping[TokenRole, str] = field(default_factory=dict, repr=False)
    minor: int = 0

    def token(self, role: TokenRole) -> tuple[str, str] | None:
        """Return the token of a role and the file that holds it; None without one."""
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
        minor=_minor(document),
    )


def _minor(document: Mapping[str, Any]) -> int:
    minor = document.get("minor")
    return minor if type(minor) is int and minor >= 0 else 0


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
        if not (isinstance(tokens[role], str) and _TOKEN.fullmatch(tokens[role])):
            raise _bad_rendezvous(path, f"has a {role} token that can't be one")
        known[role] = tokens[role]
    return known


def _parse_rendezvous_address(document: Mapping[str, Any], path: str) -> tuple[str, str | None]:
    url, pin = document.get("url"), document.get("fingerprint")
    try:
        endpoint = parse_endpoint(url if isinstance(url, str) else "", source="its url")
    except BadEndpoint as error:
        raise _bad_rendezvous(path, f"can't be used: {error.what}") from None
    fingerprint = _canonical_pin(pin) if isinstance(pin, str) else None
    if fingerprint is None and (endpoint.secure or pin is not None):
        raise _bad_rendezvous(path, "has a fingerprint that is not sha256: and 64 hexadecimal digits")
    if fingerprint and not endpoint.secure:
        raise _bad_rendezvous(path, "has a fingerprint, but its ws:// url shows no certificate")
    return endpoint.url, fingerprint


def _bad_rendezvous(path: str, why: str) -> BadSecretFile:
    return BadSecretFile(f"{printable(path)} {why}", "remove it and start `dbg-broker serve` again, which rewrites it")


def format_rendezvous(rendezvous: Rendezvous) -> str:
    """Return the text of ``broker.json``, from which :func:`parse_rendezvous` makes an equal Rendezvous."""
    document = {
        "schema": RENDEZVOUS_SCHEMA,
        "url": rendezvous.url,
        "host": rendezvous.host,
        "pid": rendezvous.pid,
        "minor": rendezvous.minor,
        "fingerprint": rendezvous.fingerprint,
        "tokens": _in_order(rendezvous.tokens),
    }
    return json.dumps(document, separators=(",", ":"))


def format_driver_tokens(tokens: Mapping[TokenRole, str]) -> str:
    """Return the text of ``driver.json``, from which :func:`parse_driver_tokens` reads the same tokens."""
    return json.dumps({"schema": RENDEZVOUS_SCHEMA, "tokens": _in_order(tokens)}, separators=(",", ":"))


def _in_order(tokens: Mapping[TokenRole, str]) -> dict[TokenRole, str]:
    return {role: tokens[role] for role in TOKEN_ROLES if role in tokens}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """All that is needed to reach the broker; ``sources`` says where address, fingerprint and token came from."""

    endpoint: Endpoint
    token: str = field(repr=False)
    sources: Mapping[Literal["address", "fingerprint", "token"], str]


def resolve(
    *,
    argument: str | None,
    environ: Mapping[str, str],
    rendezvous: Rendezvous | None,
    role: TokenRole,
    token_file_text: Callable[[str], str],
    argument_name: str = "the argument broker=",
) -> Reach:
    """Decide which broker to dial with which pin and token: argument, then DBG_* variable, then broker.json.

    ``token_file_text`` reads the file that DBG_TOKEN_FILE names; its OSError or ValueError becomes BadSecretFile.
    Raise NoBroker if no broker is known, BadInput if no token is known, and BadEndpoint if the broker can't be told
    from an impostor: no fingerprint, or a lasting token without TLS.
    """
    if argument is not None:
        endpoint, address_from = parse_endpoint(argument, source=argument_name), argument_name.rstrip("=")
    elif environ.get(BROKER):
        endpoint, address_from = parse_endpoint(environ[BROKER], source=BROKER), BROKER
    elif rendezvous is not None:
        endpoint, address_from = rendezvous.endpoint, "broker.json"
    else:
        raise NoBroker
    endpoint, pin_from = _pinned(endpoint, address_from, rendezvous)
    token, token_from = _token(environ, rendezvous, role, token_file_text)
    if not (endpoint.secure or is_throw_away(token)):
        pinned = rendezvous.url if rendezvous is not None and rendezvous.fingerprint else None
        raise BadEndpoint(
            f"{address_from} says {endpoint.url}, and the lasting token from {token_from} must not travel in the clear",
            f"write wss://, as the broker at {pinned} does" if pinned else WHERE_THEY_ARE,
        )
    return Reach(
        endpoint=endpoint,
        token=token,
        sources={"address": address_from, "fingerprint": pin_from, "token": token_from},
    )


def _pinned(endpoint: Endpoint, address_from: str, rendezvous: Rendezvous | None) -> tuple[Endpoint, str]:
    if not endpoint.secure:
        return endpoint, "none: ws:// shows no certificate"
    if endpoint.fingerprint is not None:
        return endpoint, address_from
    if rendezvous is not None and rendezvous.fingerprint is not None:
        return replace(endpoint, fingerprint=rendezvous.fingerprint), "broker.json"
    raise BadEndpoint(
        f"{address_from} says {endpoint.url} without a fingerprint, and a token is sent only to a pinned broker",
        "add #sha256:… as `dbg-broker serve` prints it, or write ws:// if it serves --insecure",
    )


def _token(
    environ: Mapping[str, str], rendezvous: Rendezvous | None, role: TokenRole, token_file_text: Callable[[str], str]
) -> tuple[str, str]:
    if path := environ.get(TOKEN_FILE):
        named = f"{TOKEN_FILE} {_path_shown(path)}"
        return parse_token(_file_text(path, named, token_file_text), source=named), named
    if text := environ.get(TOKEN):
        return parse_token(text, source=TOKEN), TOKEN
    wanted: tuple[TokenRole, ...] = ("driver", "watcher") if role == "driver" else (role,)
    found = [rendezvous.token(role) for role in wanted] if rendezvous is not None else []
    for token in found:
        if token is not None:
            return token
    raise BadInput(
        f"no {role} token is known",
        f"set DBG_TOKEN_FILE to a file with the {role} token that `dbg-broker token` prints on the broker's host",
    )


def _file_text(path: str, named: str, token_file_text: Callable[[str], str]) -> str:
    try:
        return token_file_text(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
    except ValueError:
        why = "not a text file"
    raise BadSecretFile(f"{named} can't be read ({why})", "set it to a file with the token")


def _path_shown(path: str) -> str:
    """Return a path for people, or ``…`` for a text that may be a token in place of its file's path."""
    return printable(path) if len(path) < MIN_TOKEN or path.startswith(("/", "./", "../", "~/")) else "…"


def wrong_host_reason(
    endpoint: Endpoint, rendezvous_host: str, own_host: str, *, who: Literal["rank", "terminal"] = "rank"
) -> str | None:
    """Return why an address from broker.json can't work: it is the loopback of another host. None if it may work.

    The check is not for an address that the user typed: an ssh tunnel may end on this loopback.
    """
    if not is_loopback(endpoint) or _same_host(rendezvous_host, own_host):
        return None
    return (
        f"the broker listens only on the loopback of {printable(rendezvous_host)}, this {who} is on "
        f"{printable(own_host)}: restart it with `dbg-broker serve --listen 0.0.0.0`"
    )


def is_loopback(endpoint: Endpoint) -> bool:
    """Tell whether an address leads each host to itself."""
    host = endpoint.host
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost") or name == "localhost.localdomain":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None) or address
    # A connection to 0.0.0.0 or :: reaches the own loopback.
    return inner.is_loopback or inner.is_unspecified


def _same_host(a: str, b: str) -> bool:
    """Compare two host names; one may have a domain and the other not."""
    a, b = a.lower().rstrip("."), b.lower().rstrip(".")
    return a == b or a == b.partition(".")[0] or b == a.partition(".")[0]
