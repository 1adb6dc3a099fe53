"""Addresses, fingerprints and tokens of brokers, and the format of the files that contain them.

Pure: callers pass the text of files and variables, so that agent, terminal and broker parse them by the same rules. No
error, repr or str from this module contains a token.
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
"""Port of a broker if no other port is given. It is easy to remember: one above port 6899 of ``pudb.remote``."""

MIN_TOKEN = 16
MAX_TOKEN = 512
"""Minimum and maximum length of a token. A shorter token can be guessed; a longer text is not the content of a token
file."""

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
"""File in a home with the address and fingerprint of its broker, and the token of ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address of a broker, and the data that verifies its certificate.

    ``fingerprint`` is the fingerprint of the certificate, None if it is not given. ``ca`` is the PEM text of
    authorities; one of them must have signed the certificate for the host. It is None if no authority is required.
    """

    host: str
    port: int
    fingerprint: str | None
    ca: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Address as a URL without path or fingerprint, such as ``wss://[::1]:6900``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"wss://{host}:{self.port}"

    def __str__(self) -> str:
        return self.url if self.fingerprint is None else f"{self.url}#{self.fingerprint}"


def parse_endpoint(text: str, *, source: str) -> Endpoint:
    """Parse ``host``, ``host:port`` or ``wss://host:port``, each with or without ``#sha256:…``.

    ``source`` is the origin of the text, for errors. Raise BadEndpoint, which never quotes the text, because the user
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
        raise bad("contains user info, which is not allowed in an address", "put the token into DBG_TOKEN_FILE")
    address, hash_sign, pin = rest.partition("#")
    if "?" in address:
        raise bad("contains a query, which is not allowed in an address", "put the token into DBG_TOKEN_FILE")
    authority, _, path = address.partition("/")
    if path:
        raise bad("contains a path, which is not allowed in an address")
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
    """Return an IPv6 address in canonical form, or None if the text is not an IPv6 address."""
    try:
        return str(ipaddress.IPv6Address(text)) if _SIX.fullmatch(text) else None
    except ValueError:
        return None


def _name(text: str) -> str | None:
    if not _NAME.fullmatch(text):
        return None
    if re.fullmatch(r"[0-9.]+", text):
        # A bare number is an old form of an IPv4 address: `6900` is 0.0.26.244. The user has forgotten the host.
        try:
            return str(ipaddress.IPv4Address(text))
        except ValueError:
            return None
    return text.lower()


def canonical_pin(text: str) -> str | None:
    """Return a fingerprint in canonical form, or None if the text is not a fingerprint."""
    found = _PIN.fullmatch(text)
    return f"sha256:{found[1].replace(':', '').lower()}" if found else None


def fingerprint_of(der: bytes) -> str:
    """Return the fingerprint of a DER certificate, in the form of :func:`canonical_pin`."""
    import hashlib  # loads OpenSSL, which most programs that parse an address don't need

    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def same_fingerprint(a: str, b: str) -> bool:
    """Compare two canonical fingerprints in constant time."""
    import hmac

    return hmac.compare_digest(a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass"))


def is_token(text: str) -> bool:
    """Return True if a text has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


def parse_token(text: str, *, source: str) -> str:
    """Return the token without the newline that an editor adds. Raise BadSecretFile, which never quotes the text."""
    token = text.rstrip("\r\n")
    if not _TOKEN.fullmatch(token):
        raise BadSecretFile(
            f"{printable(source)} does not contain a token ({MIN_TOKEN} to {MAX_TOKEN} visible ASCII characters)",
            "use the line that `dbg-broker token` prints on the broker's host",
        )
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Connection parameters of the broker; ``sources`` are the origins of address, fingerprint and token.

    ``others`` are brokers that know the same ranks and accept the same token. They are tried after this one, in order.
    """

    endpoint: Endpoint
    token: str = field(repr=False)
    sources: Mapping[Literal["address", "fingerprint", "token"], str]
    others: tuple[Endpoint, ...] = ()

    def routes(self, last: str = "") -> list[Route]:
        """Return the parameters of each broker, in order; the broker at the URL ``last`` is moved to the end."""
        in_order = sorted((self.endpoint, *self.others), key=lambda one: one.url == last)
        return [replace(self, endpoint=one, others=()) for one in in_order]


def spread(reach: Route, learned: Sequence[Endpoint], name: str, *, keeps_first: bool = False) -> Route:
    """Merge all known brokers, including ``learned`` ones, and sort them: the peer ``name`` tries them in this order.

    An address that the user has named stays first. With ``keeps_first`` an address from ``broker.json`` stays first,
    too. The name determines the order of the other brokers, so that peers are distributed evenly.
    """
    known = {one.url: one for one in (*learned, *reach.others)}
    known[reach.endpoint.url] = reach.endpoint
    if len(known) == 1:
        return reach
    keeps_first = keeps_first or reach.sources.get("address") != RENDEZVOUS_FILE
    # Rendezvous hashing (highest random weight) distributes names evenly over the endpoints. If an endpoint is gone,
    # its names are distributed evenly over the others.
    first, *others = sorted(
        known.values(),
        key=lambda one: (keeps_first and one.url == reach.endpoint.url, weight_of(one.url, name)),
        reverse=True,
    )
    return replace(reach, endpoint=first, others=tuple(others))


def weight_of(url: str, name: str) -> bytes:
    """Return the pseudorandom weight of a broker for a name; it is the same in all processes."""
    import hashlib  # as above

    return hashlib.blake2b(f"{name} {url}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def wrong_host_reason(endpoint: Endpoint, rendezvous_host: str, own_host: str) -> str | None:
    """Return an error text if an address from broker.json is the loopback of another host, else None.

    Callers must not pass an address that the user typed: it may be the local end of an ssh tunnel.
    """
    if not is_loopback(endpoint) or _same_host(rendezvous_host, own_host):
        return None
    return (
        f"the broker listens only on the loopback of {printable(rendezvous_host)}, and this host is "
        f"{printable(own_host)}: restart the broker with `dbg-broker serve --listen 0.0.0.0`"
    )


def is_loopback(endpoint: Endpoint) -> bool:
    """Return True if each host reaches only itself at this address."""
    address = ip_of(endpoint.host)
    if address is None:
        name = endpoint.host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost") or name == "localhost.localdomain"
    # A connection to 0.0.0.0 or :: goes to the local host's loopback.
    return address.is_loopback or address.is_unspecified


def is_loopback_host(host: str) -> bool:
    """Return True if a host is ``localhost`` or a loopback address."""
    address = ip_of(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse a host as an IP address, with or without brackets and zone; return None for a name.

    An IPv4-mapped IPv6 address, which an IPv6 socket shows for an IPv4 peer, becomes an IPv4 address.
    """
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _same_host(a: str, b: str) -> bool:
    """Compare two host names; one of them may include a domain."""
    a, b = a.lower().rstrip("."), b.lower().rstrip(".")
    return a == b or a == b.partition(".")[0] or b == a.partition(".")[0]


# -------------------------------------------------------------------------------------------- the files of a home

RENDEZVOUS_SCHEMA = 1
"""Version of ``broker.json``; it increases if an older reader would misread a newer file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Contents of ``broker.json``. A copy for another user may have no tokens.

    ``driver_tokens`` are the tokens in ``driver.json``, which no rank opens. ``fingerprint`` is the fingerprint of the
    broker's certificate. ``brokers`` are other brokers that know the same ranks.
    """

    url: str
    host: str
    pid: int
    fingerprint: str
    tokens: Mapping[TokenRole, str] = field(repr=False)
    driver_tokens: Mapping[TokenRole, str] = field(default_factory=dict, repr=False)
    brokers: tuple[Endpoint, ...] = ()

    def token(self, role: TokenRole) -> tuple[str, str] | None:
        """Return the token of a role and the file that contains it, or None."""
        if role in self.driver_tokens:
            return self.driver_tokens[role], "driver.json"
        return (self.tokens[role], "broker.json") if role in self.tokens else None

    @property
    def endpoint(self) -> Endpoint:
        """Address of the broker with the fingerprint of its certificate. Raise BadEndpoint if ``url`` is invalid."""
        return replace(parse_endpoint(self.url, source="broker.json"), fingerprint=self.fingerprint)


class _Document(msgspec.Struct, kw_only=True):
    """Fields that ``broker.json`` and ``driver.json`` have in common; unknown fields are ignored."""

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
    """Parse ``broker.json``, ignoring unknown fields. Raise BadSecretFile, which names ``path`` and never a token."""
    found = _read_document(_Home, text, path)
    if not found.host.isprintable():
        raise _bad_rendezvous(path, "does not name a host")
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
    """Parse ``driver.json``, ignoring unknown fields. Raise BadSecretFile, which names ``path`` and never a token."""
    return _tokens_in(_read_document(_Document, text, path), path)


def known_endpoint(url: str, fingerprint: str) -> Endpoint:
    """Build the endpoint of a broker from its address and fingerprint. Raise BadEndpoint if they are invalid."""
    endpoint, pin = parse_endpoint(url, source="its url"), canonical_pin(fingerprint)
    if pin is None:
        raise BadEndpoint(f"{endpoint.url} has no valid fingerprint", "start that broker again")
    return replace(endpoint, fingerprint=pin)


def known_endpoints(brokers: Iterable[tuple[str, str]]) -> tuple[Endpoint, ...]:
    """Build the endpoints of brokers from addresses and fingerprints; invalid ones are skipped."""
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
        # msgspec's error names fields but no values, so it contains no token.
        raise _bad_rendezvous(path, f"can't be read: {printable(str(error))}") from None
    raise BadSecretFile(
        f"{printable(path)} has schema {schema}, and this release reads schema {RENDEZVOUS_SCHEMA}",
        "install the same dbg-broker release on both ends",
    )


def _tokens_in(document: _Document, path: str) -> dict[TokenRole, str]:
    known = {role: document.tokens[role] for role in TOKEN_ROLES if role in document.tokens}
    for role, token in known.items():
        if not (isinstance(token, str) and is_token(token)):
            raise _bad_rendezvous(path, f"has an invalid {role} token")
    return known


def _bad_rendezvous(path: str, why: str) -> BadSecretFile:
    return BadSecretFile(f"{printable(path)} {why}", "remove it and restart `dbg-broker serve`, which rewrites it")


def format_rendezvous(rendezvous: Rendezvous) -> str:
    """Format ``broker.json``; :func:`parse_rendezvous` returns an equal Rendezvous for it."""
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
    """Format ``driver.json``; :func:`parse_driver_tokens` returns the same tokens for it."""
    return json.dumps({"schema": RENDEZVOUS_SCHEMA, "tokens": _in_order(tokens)}, separators=(",", ":"))


def _in_order(tokens: Mapping[TokenRole, str]) -> dict[TokenRole, str]:
    return {role: tokens[role] for role in TOKEN_ROLES if role in tokens}
