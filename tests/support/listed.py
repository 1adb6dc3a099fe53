"""The list of ranks as a terminal gets it: over one connection to the broker, without a process for each look.

``python -m tests.support.listed [--all]`` prints it in a line after each change, on a host from which the broker is
reached.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import select as readiness
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from dbg_client.views.list import list_document
from dbg_wire.codec import decode, encode
from dbg_wire.messages import Change, Gone, Greet, Message, Sender, Snapshot, Subscribe
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import parse_target, select
from dbg_wire.version import PROTOCOL_MINOR, RELEASE, subprotocol
from tests.support.time_unit import seconds
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import trusting_context

ROOT = Path(__file__).parents[2]

CLOSE_SECONDS = 1.0
"""Seconds for the broker's close frame; a test that is done with the list should not wait."""

Listed = list[dict[str, Any]]
"""The ranks as ``list --json`` prints them."""


class RankList:
    """The ranks of one broker; used from one thread, and the event loop runs only inside :meth:`wait`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, websocket: ClientConnection) -> None:
        self._loop = loop
        self._websocket = websocket
        self._ranks: dict[str, RankInfo] = {}
        self._is_complete = False

    def wait(self, deadline: float) -> bool:
        """Wait until the list is complete or has changed; return False if neither happens before ``deadline``."""
        while True:
            try:
                text = self._loop.run_until_complete(self._next(max(0.0, deadline - time.monotonic())))
            except asyncio.TimeoutError:
                return False
            if isinstance(text, str) and self._take(decode(text, Sender.BROKER)):
                return True

    async def _next(self, seconds: float) -> str | bytes:
        return await asyncio.wait_for(self._websocket.recv(), None if math.isinf(seconds) else seconds)

    def _take(self, message: Message) -> bool:
        if isinstance(message, Snapshot):
            self._ranks.update((rank.key, rank) for rank in message.ranks)
            self._is_complete = message.last
        elif isinstance(message, Change):
            self._ranks[message.rank.key] = message.rank
        elif isinstance(message, Gone):
            self._ranks.pop(message.key, None)
        else:
            return False
        return self._is_complete

    def listed(self, *, exited: bool) -> Listed:
        """Return the ranks in the order of ``--list``; with ``exited``, exited ranks follow the others."""
        known = self._ranks.values()
        there = [rank for rank in known if rank.state is not RankState.EXITED]
        ordered = list(select(parse_target("all"), there, any_job=True).ranks) if there else []
        if exited:
            ordered += [rank for rank in known if rank.state is RankState.EXITED]
        ranks: Listed = json.loads(json.dumps(list_document(ordered)))["ranks"]
        return ranks


@contextmanager
def rank_list(home: Path) -> Iterator[RankList]:
    """Subscribe to the list at the broker of ``home``; fail if there is none, or if it goes away.

    One thread reads and writes: before Python 3.13 two threads on one TLS connection disturb each other, and a client
    with a reading thread sometimes never got the answer to its handshake.
    """
    loop = asyncio.new_event_loop()
    try:
        websocket = loop.run_until_complete(_subscribed(home))
        try:
            yield RankList(loop, websocket)
        finally:
            loop.run_until_complete(websocket.close())
    except (OSError, WebSocketException) as error:
        raise AssertionError(f"the broker of {home} does not list its ranks: {error!r}") from error
    finally:
        loop.close()


def listed_elsewhere(
    home: Path, wrap: Callable[[Sequence[str]], list[str]], deadline: float, *, exited: bool
) -> Iterator[Listed]:
    """Yield the list as it is on another host, and after each change until ``deadline``; fail if it has no broker."""
    command = wrap([sys.executable, "-m", "tests.support.listed", *(["--all"] if exited else [])])
    environ = {**os.environ, "DBG_HOME": str(home)}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environ, cwd=ROOT, bufsize=0
    ) as process:
        assert process.stdout is not None
        try:
            yield from map(json.loads, _lines(process.stdout.fileno(), deadline))
        finally:
            process.kill()


def _lines(handle: int, deadline: float) -> Iterator[bytes]:
    rest = b""
    while readiness.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
        data = os.read(handle, 65536)
        if not data:
            raise AssertionError("the broker does not list its ranks on the other host")
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


def main() -> None:
    """Print the list after each change, until killed."""
    with rank_list(Path(os.environ["DBG_HOME"])) as ranks:
        while ranks.wait(math.inf):
            print(json.dumps(ranks.listed(exited="--all" in sys.argv)), flush=True)  # noqa: T201 - what the test reads


async def _subscribed(home: Path) -> ClientConnection:
    rendezvous = json.loads((home / "broker.json").read_text())
    websocket = await connect(
        f"{rendezvous['url']}/client",
        additional_headers={"Authorization": f"Bearer {written_tokens(home)['driver']}"},
        subprotocols=[Subprotocol(subprotocol())],
        ssl=trusting_context() if rendezvous["url"].startswith("wss:") else None,
        compression=None,
        proxy=None,
        open_timeout=seconds(10),
        close_timeout=CLOSE_SECONDS,
        ping_interval=None,
    )
    await websocket.send(encode(Greet(minor=PROTOCOL_MINOR, release=RELEASE, name="the test")))
    await websocket.send(encode(Subscribe(once=False)))
    return websocket


if __name__ == "__main__":
    main()
