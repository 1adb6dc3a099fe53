"""The broker closes a classic connection that shows no debugger in time, and says why."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dbg_broker.classic import connection
from dbg_broker.classic.sessions import StockSessions
from dbg_broker.net.tcp import listen
from dbg_wire.messages import Change, Subscribe
from dbg_wire.records.ranks import RankState
from tests.support.time_unit import seconds
from tests.unit.broker.peers import SECONDS, running_broker

SHORT = seconds(1)
"""Seconds that suffice for the real debugger to connect and be seen, also on a busy machine."""


async def test_who_shows_no_debugger_is_closed_and_who_does_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENCE_SECONDS", SHORT)
    async with running_broker(tmp_path) as broker:
        classic = StockSessions(broker.hub, asyncio.get_running_loop())
        listener = listen("127.0.0.1", 0)
        await classic.listen(listener)
        terminal = await broker.terminal()
        await terminal.say(Subscribe())
        port = listener.getsockname()[1]
        (_, real), (silent, first), (chatty, second) = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(3)
        ]
        real.write(b"\x1b[?1049h\x1b[HPuDB")
        second.write(b"hello\n")
        await terminal.expect(Change, lambda change: change.rank.state is RankState.STOPPED)
        for reader in (silent, chatty):
            said = await asyncio.wait_for(reader.read(), SECONDS)
            assert said == f"dbg-broker: no debugger has shown itself within {SHORT:g} s\r\n".encode()
        assert len(classic) == 1
        for writer in (real, first, second):
            writer.close()
            await writer.wait_closed()
        await classic.stop()
