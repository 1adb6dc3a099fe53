"""``dbg-broker check``: reach a broker step by step, one line each, and explain the one that fails."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dbg_broker.home.certificate import SOON_SECONDS, Validity, is_soon, read_validity, until
from dbg_broker.home.issued import IssuedToken, load_issued
from dbg_broker.net.http import BEARER
from dbg_broker.verbs.broker_client import BrokerProbe, Say, find_broker
from dbg_dial.apart import apart
from dbg_dial.kernel import user_name
from dbg_wire.errors import DbgError, printable
from dbg_wire.finding.endpoint import Reach
from dbg_wire.version import PROTOCOL_MAJOR

_BLOCK, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"

Step = tuple[str, Callable[[], str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One thing with its end, None for never, in seconds since the epoch; ``remedy`` is said when the end is near."""

    label: str
    what: str
    ends: float | None
    remedy: str = ""

    def line(self, now: float) -> str:
        """Return a line about it."""
        end = "without an end" if self.ends is None else until(self.ends, now)
        return f"{self.label:<12} {f'{self.what}, ' if self.what else ''}{end}"

    def warning(self, now: float) -> str | None:
        """Return a line that says what to do, if the end is near and was not meant to be."""
        if self.ends is None or not self.remedy or not is_soon(self.ends, now):
            return None
        return f"warning: the {self.label}: {until(self.ends, now)}; {self.remedy}"


def ends_of_certificate(reach: Reach, der: bytes) -> Iterator[End]:
    """Yield the certificate that was shown, and the authority that vouches for it, as far as they can be read."""
    try:
        shown = read_validity(der)
    except ValueError:
        return
    if reach.endpoint.ca is None:
        remedy = "peers that know it by DBG_CA refuse it then; renew it, or type `dbg-broker certificate --rotate`"
    else:
        remedy = "have it renewed, since it is refused then where DBG_CA is set"
    yield End(label="certificate", what="", ends=shown.ends, remedy=remedy)
    if reach.endpoint.ca is not None:
        authority = _authority(reach.endpoint.ca, shown)
        if authority is not None:
            remedy = "put the next one into the file of DBG_CA, too"
            yield End(label="authority", what=printable(authority.subject), ends=authority.ends, remedy=remedy)


def _authority(pem: str, shown: Validity) -> Validity | None:
    """Return the authority of a file that has signed a certificate; None if others stand between the two."""
    for text in pem.split(_BLOCK)[1:]:
        try:
            found = read_validity(ssl.PEM_cert_to_DER_cert(f"{_BLOCK}{text.partition(_END)[0]}{_END}"))
        except ValueError:
            continue
        if found.subject == shown.issuer:
            return found
    return None


class _Bearer(msgspec.Struct):
    """What a broker says of a token."""

    role: str
    name: str
    expires: float | None
    made: float | None


def end_of_token(reach: Reach) -> End | None:
    """Ask the broker when the token ends that is used; None if it does not say."""
    with BrokerProbe(reach.endpoint) as probe:
        probe.reach()
        head, _, body = probe.page(BEARER, reach.token).partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1:2] != [b"200"]:
        return None
    try:
        said = msgspec.json.decode(body, type=_Bearer)
    except ValueError:
        return None
    lasts = said.expires is not None and said.made is not None and said.expires - said.made > SOON_SECONDS
    what = printable(f"{said.name}, a {said.role}'s" if said.name else f"a {said.role}'s")
    return End(label="token", what=what, ends=said.expires, remedy="ask its maker for another one" if lasts else "")


def ends_of_home(home: str) -> Iterator[End]:
    """Yield the tokens that were made in a home for somebody, those that never end among them."""
    try:
        issued = apart(home, lambda: load_issued(Path(home)).tokens)
    except (DbgError, OSError):
        return
    for one in issued:
        yield End(label="issued token", what=_described(one), ends=one.expires, remedy=_remedy(one))


def _described(one: IssuedToken) -> str:
    return f"{one.name}, a {one.role.value}'s{f' of job {one.job}' if one.job is not None else ''}"


def _remedy(one: IssuedToken) -> str:
    # A token for two hours always ends soon.
    lasts = one.expires is not None and one.expires - one.made > SOON_SECONDS
    return "make another one by `dbg-broker token --name`" if lasts else ""


def check(url: str | None, home: str, environ: Mapping[str, str], say: Say, *, as_rank: bool = False) -> int:
    """Print one line for each step and return 0; raise the DbgError of the step that fails, after its line.

    The steps are those of a terminal, or of a rank, which is not registered.
    """
    reach = find_broker(url, home, environ, "rank" if as_rank else "driver")
    say(f"{reach.endpoint.url} (address from {reach.sources['address']}, token from {reach.sources['token']})")
    with BrokerProbe(reach.endpoint) as probe:
        for name, step in _steps(probe, reach, None if as_rank else user_name()):
            began = time.monotonic()
            try:
                found = step()
            except DbgError:
                say(f"{name:<12} FAILED")
                raise
            say(f"{name:<12} ok  {(time.monotonic() - began) * 1000:7.1f} ms  {printable(found)}".rstrip())
        shown = probe.certificate()
    is_homes = reach.sources["address"] == "broker.json"
    for line in _ends(reach, shown, home if is_homes else None):
        say(line)
    return 0


def _ends(reach: Reach, shown: bytes | None, home: str | None) -> list[str]:
    """Return a line for each thing that ends, and behind them a warning for each that ends soon."""
    ends = [] if shown is None else list(ends_of_certificate(reach, shown))
    with contextlib.suppress(DbgError, OSError):
        token = end_of_token(reach)
        if token is not None:
            ends.append(token)
    if home is not None:
        ends.extend(ends_of_home(home))
    now = time.time()
    return [*(one.line(now) for one in ends), *(text for one in ends if (text := one.warning(now)) is not None)]


def _steps(probe: BrokerProbe, reach: Reach, terminal: str | None) -> Iterator[Step]:
    def port() -> str:
        probe.connect()
        return str(reach.endpoint.port)

    def token() -> str:
        probe.present(reach.token, "/agent" if terminal is None else "/client")
        return f"from {reach.sources['token']}"

    def version() -> str:
        probe.agree()
        return f"protocol {PROTOCOL_MAJOR}"

    def round_trip() -> str:
        if terminal is None:
            return f"{probe.round_trip() * 1000:.1f} ms"
        welcome = probe.greet(terminal)
        return f"{probe.round_trip() * 1000:.1f} ms to pid {welcome.pid} on {welcome.host}, release {welcome.release}"

    yield "name", probe.look_up
    yield "port", port
    yield "TLS", probe.secure
    yield "fingerprint" if reach.endpoint.fingerprints else "authority", probe.compare
    yield "token", token
    yield "version", version
    yield "round trip", round_trip
