"""``dbg-broker check``: connect to a broker step by step, print one line for each step, and explain a failure."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

from dbg_broker.cli.broker_client import BrokerProbe, find_broker
from dbg_broker.cli.console import PrintLine, home_of, print_line
from dbg_command.home import user_name
from dbg_dial.endpoint import Route
from dbg_wire.errors import DbgError, printable

Step = tuple[str, Callable[[], Awaitable[str]]]


def check(
    url: str | None, home: str, environ: Mapping[str, str], print_line: PrintLine, *, as_rank: bool = False
) -> int:
    """Print one line for each step and return 0. If a step fails, print its line and raise its DbgError.

    The steps are those of a terminal, or with ``as_rank`` those of a rank that does not register.
    """
    reach = find_broker(url, home, environ, "rank" if as_rank else "driver")
    print_line(f"{reach.endpoint.url} (address from {reach.sources['address']}, token from {reach.sources['token']})")
    asyncio.run(_check(reach, None if as_rank else user_name(), print_line))
    return 0


async def _check(reach: Route, terminal: str | None, print_line: PrintLine) -> None:
    async with BrokerProbe(reach, "/agent" if terminal is None else "/client") as probe:
        for name, step in _steps(probe, reach, terminal):
            began = time.monotonic()
            try:
                found = await step()
            except DbgError:
                print_line(f"{name:<12} FAILED")
                raise
            print_line(f"{name:<12} ok  {(time.monotonic() - began) * 1000:7.1f} ms  {printable(found)}".rstrip())


def _steps(probe: BrokerProbe, reach: Route, terminal: str | None) -> Iterator[Step]:
    async def round_trip() -> str:
        if terminal is None:
            return f"{await probe.round_trip() * 1000:.1f} ms"
        welcome = await probe.greet(terminal)
        passed = await probe.round_trip()
        return f"{passed * 1000:.1f} ms to pid {welcome.pid} on {welcome.host}, release {welcome.release}"

    yield "name", probe.look_up
    yield "port", probe.connect
    yield "TLS", probe.secure
    yield "fingerprint" if reach.endpoint.fingerprint is not None else "authority", probe.compare
    yield "token", probe.present
    yield "round trip", round_trip


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="host:port or wss://…#sha256:… (default: $DBG_BROKER, or from the home)"
    )
    parser.add_argument("--rank", action="store_true", help="connect as a rank, with a rank's token")


def run(given: argparse.Namespace) -> int:
    """Run the verb, and return the exit status. Raise DbgError."""
    return check(given.url, home_of(given), os.environ, print_line, as_rank=given.rank)
