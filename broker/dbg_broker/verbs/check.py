"""``dbg-broker check``: reach a broker step by step, one line each, and explain the one that fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from dbg_broker.verbs.expiry import end_of_token, ends_of_certificate, ends_of_home
from dbg_broker.verbs.probe import BrokerProbe
from dbg_broker.verbs.which_broker import Say, find_broker
from dbg_dial.user import user_name
from dbg_wire.errors import DbgError, printable
from dbg_wire.finding.endpoint import Endpoint, Reach
from dbg_wire.version import PROTOCOL_MAJOR

Step = tuple[str, Callable[[], str]]


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
    yield from _tls_steps(probe, reach.endpoint)
    yield "token", token
    yield "version", version
    yield "round trip", round_trip


def _tls_steps(probe: BrokerProbe, endpoint: Endpoint) -> Iterator[Step]:
    if not endpoint.secure:
        yield "TLS", lambda: "none: ws:// is plain, and proves nobody's identity"
        return
    yield "TLS", probe.secure
    yield "fingerprint" if endpoint.fingerprints else "authority", probe.compare
