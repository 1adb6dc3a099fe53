"""The broker's address, the token that it checks, the fingerprints by which it is known, and the files that tell them.

Pure: files and variables are handed in, so that agent, terminal and broker read them by the same rules. No error,
repr or str made here holds a token.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from dbg_wire.errors import BadEndpoint, BadSecretFile, printable
from dbg_wire.limits import MAX_BROKERS

DEFAULT_PORT = 6900
"""Next to the 6899 of ``pudb.remote``, so that both are easy to remember."""

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
_TOKEN = re.compile(rf"[!-~]{{{MIN_TOKEN},{MAX_TOKEN}}}")
_HOW_TO_WRITE = "write host:port or wss://host:port, then #sha256:… as `dbg-broker serve` prints it"

RENDEZVOUS_FILE = "broker.json"
"""Where a broker that serves a home writes its address, its fingerprint and the token of ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A broker's address, and by what its certificate is known.

    The certificate has ``fingerprint``, None if it is not given. ``ca`` is the PEM text of the authorities of which one
    has signed it, for the host; None if that doesn't matter.
    """

    host: str
    port: int
    fingerprint: str | None
    ca: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Return the address as a URL without path or fingerprint, e.g. ``wss://[::1]:6900``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"wss://{host}:{self.port}"

    def __str__(self) -> str:
        return self.url if self.fingerprint is None else f"{self.url}#{self.fingerprint}"


def parse_endpoint(text: str, *, source: str) -> Endpoint:
    """Read ``host``, ``host:port`` or ``wss://host:port``, each with ``#sha256:…`` or without.

    ``source`` says in an error where the text came from. Raise BadEndpoint, which quotes nothing of the text: a user
    may have put a token into it.
    """

    def bad(why: str, remedy: str = _HOW_TO_WRITE) -> BadEndpoint:
        return BadEndpoint(f"{source.rstrip('=')} {why}", remedy)

    if not text.isprintable() or " " in text:
        raise bad("contains a space or a control character")
    found = _SCHEME.match(text)
    scheme, rest = (found[1].lower(), text[found.end() :]) if found else ("wss", text)
    if scheme != "wss":
        raise bad("is not a wss:// address")
    if "@" in rest:
        raise bad("contains user info, which an address has no room for", "put the token into DBG_TOKEN_FILE")
    address, hash_sign, pin = rest.partition("#")
    if "?" in address:
        raise bad("contains a query, which an address has no room for", "put the token into DBG_TOKEN_FILE")
    authority, _, path = address.partition("/")
    if path:
        raise bad("contains a path, which an address has no room for")
    fingerprint = canonical_pin(pin) if hash_sign else None
    if hash_sign and fingerprint is None:
        raise bad("has a fingerprint that is not sha256: and 64 hexadecimal digits")
    host, port = _host_and_port(authority, bad)
    return Endpoint(host=host, port=port, fingerprint=fingerprint)


def _host_and_port(authority: str, bad: Callable[..., BadEndpoint]) -> tuple[str, int]:
    if (six := canonical_six(authority)) is not None:
        raise bad("is an IPv6 address without brackets", f"write [{six}]:{DEFAULT_PORT}")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise bad("is not host:port")
    if not authority or found["name"] == "":
        raise bad("has no host")
    host = canonical_six(found["six"]) if found["name"] is None else _name(found["name"])
    if host is None:
        raise bad("has a host that is neither a name nor an IP address")
    port = found["port"]
    if port is None:
        return host, DEFAULT_PORT
    if not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise bad("has a port that is not a number from 1 to 65535")
    return host, int(port)


def canonical_six(text: str) -> str | None:
    """Return an IPv6 address in its one form, None for a text that is none."""
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


def canonical_pin(text: str) -> str | None:
    """Return a fingerprint in its one form, None for a text that is none."""
    found = _PIN.fullmatch(text)
    return f"sha256:{found[1].replace(':', '').lower()}" if found else None


def fingerprint_of(der: bytes) -> str:
    """Return the fingerprint of a certificate in DER form, as :func:`canonical_pin` does."""
    import hashlib  # loads OpenSSL, which most programs that read an address don't need

    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def same_fingerprint(a: str, b: str) -> bool:
    """Compare two canonical fingerprints in constant time."""
    import hmac

    return hmac.compare_digest(a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass"))


def is_token(text: str) -> bool:
    """Tell whether a text may be a token."""
    return _TOKEN.fullmatch(text) is not None


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
class Reach:
    """All that is needed to reach the broker; ``sources`` says where address, fingerprint and token came from.

    ``others`` are brokers that know the same ranks and take the same token, in the order in which they are dialled
    after this one.
    """

    endpoint: Endpoint
    token: str = field(repr=False)
    sources: Mapping[Literal["address", "fingerprint", "token"], str]
    others: tuple[Endpoint, ...] = ()

    def routes(self, last: str = "") -> list[Reach]:
        """Return how to reach each broker, in order; the one at the URL ``last`` comes last."""
        in_order = sorted((self.endpoint, *self.others), key=lambda one: one.url == last)
        return [replace(self, endpoint=one, others=()) for one in in_order]


def spread(reach: Reach, learned: Sequence[Endpoint], name: str, *, keeps_first: bool = False) -> Reach:
    """Return the reach with all brokers that are known, ``learned`` ones too, in the order in which a peer dials them.

    An address that the user has named comes first, and with ``keeps_first`` that of ``broker.json`` does. The order of
    the others, or of all, is that of the peer's name.
    """
    known = {one.url: one for one in (*learned, *reach.others)}
    known[reach.endpoint.url] = reach.endpoint
    if len(known) == 1:
        return reach
    keeps_first = keeps_first or reach.sources.get("address") != RENDEZVOUS_FILE
    # Rendezvous hashing (highest random weight): names spread evenly over the endpoints, and the names of an endpoint
    # that is gone spread evenly over the others.
    first, *others = sorted(
        known.values(),
        key=lambda one: (keeps_first and one.url == reach.endpoint.url, weight_of(one.url, name)),
        reverse=True,
    )
    return replace(reach, endpoint=first, others=tuple(others))


def weight_of(url: str, name: str) -> bytes:
    """Return the random weight of a broker for a name, which is the same in all processes."""
    import hashlib  # as above

    return hashlib.blake2b(f"{name} {url}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def wrong_host_reason(endpoint: Endpoint, rendezvous_host: str, own_host: str) -> str | None:
    """Return why an address from broker.json can't work: it is the loopback of another host. None if it may work.

    The check is not for an address that the user typed: an ssh tunnel may end on this loopback.
    """
    if not is_loopback(endpoint) or _same_host(rendezvous_host, own_host):
        return None
    return (
        f"the broker listens only on the loopback of {printable(rendezvous_host)}, and this host is "
        f"{printable(own_host)}: restart it with `dbg-broker serve --listen 0.0.0.0`"
    )


def is_loopback(endpoint: Endpoint) -> bool:
    """Tell whether an address leads each host to itself."""
    address = ip_of(endpoint.host)
    if address is None:
        name = endpoint.host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost") or name == "localhost.localdomain"
    # A connection to 0.0.0.0 or :: reaches the own loopback.
    return address.is_loopback or address.is_unspecified


def is_loopback_host(host: str) -> bool:
    """Tell whether a host is ``localhost`` by its name, or an address of the loopback."""
    address = ip_of(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that a host is, with or without brackets and zone; None for a name.

    An IPv4 peer, which an IPv6 socket shows in a form of its own, has its IPv4 address.
    """
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _same_host(a: str, b: str) -> bool:
    """Compare two host names; one may have a domain and the other not."""
    a, b = a.lower().rstrip("."), b.lower().rstrip(".")
    return a == b or a == b.partition(".")[0] or b == a.partition(".")[0]


# -------------------------------------------------------------------------------------------- the files of a home

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


class _Document(msgspec.Struct, kw_only=True):
    """What both files hold; unknown fields are ignored."""

    schema: int
    tokens: dict[str, Any] = {}


class _Broker(msgspec.Struct):
    url: str
    fingerprint: str


class _Home(_Document, kw_only=True):
    url: str
    fingerprint: str
    host: Annotated[str, msgspec.Meta(min_length=1)]
    pid: Annotated[int, msgspec.Meta(ge=1)]
    brokers: Annotated[list[_Broker], msgspec.Meta(max_length=MAX_BROKERS)] = []


_D = TypeVar("_D", bound=_Document)


def parse_rendezvous(text: str, path: str) -> Rendezvous:
    """Read ``broker.json``; unknown fields are ignored. Raise BadSecretFile, naming ``path`` and never a token."""
    found = _read_document(_Home, text, path)
    if not found.host.isprintable():
        raise _bad_rendezvous(path, "names no host")
    try:
        own = known_endpoint(found.url, found.fingerprint)
        others = [known_endpoint(one.url, one.fingerprint) for one in found.brokers]
    except BadEndpoint as error:
        raise _bad_rendezvous(path, f"names a broker that can't be used: {error.what}") from None
    return Rendezvous(
        url=own.url,
        host=found.host,
        pid=found.pid,
        fingerprint=own.fingerprint or "",
        tokens=_tokens_in(found, path),
        brokers=tuple(others),
    )


def parse_driver_tokens(text: str, path: str) -> Mapping[TokenRole, str]:
    """Read ``driver.json``; unknown fields are ignored. Raise BadSecretFile, naming ``path`` and never a token."""
    return _tokens_in(_read_document(_Document, text, path), path)


def known_endpoint(url: str, fingerprint: str) -> Endpoint:
    """Return the endpoint of a broker by its address and fingerprint. Raise BadEndpoint if it can't be one."""
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


def _read_document(kind: type[_D], text: str, path: str) -> _D:
    try:
        schema = msgspec.json.decode(text, type=_Document).schema
        if schema == RENDEZVOUS_SCHEMA:
            return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        # msgspec names fields and no values.
        raise _bad_rendezvous(path, f"can't be read: {printable(str(error))}") from None
    raise BadSecretFile(
        f"{printable(path)} has schema {schema}, and this release reads schema {RENDEZVOUS_SCHEMA}",
        "install the same dbg-broker release on both ends",
    )


def _tokens_in(document: _Document, path: str) -> dict[TokenRole, str]:
    known = {role: document.tokens[role] for role in TOKEN_ROLES if role in document.tokens}
    for role, token in known.items():
        if not (isinstance(token, str) and is_token(token)):
            raise _bad_rendezvous(path, f"has a {role} token that can't be one")
    return known


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
