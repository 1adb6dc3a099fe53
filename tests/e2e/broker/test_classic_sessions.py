"""The classic port over real sockets: stock debuggers, the terminals on them, and strangers that call."""

from __future__ import annotations

import asyncio
import resource

from dbg_broker.classic.callers import MAX_CALLERS, MIN_DRAWN
from tests.unit.broker.classic.test_sessions import HOST, SCREEN, ClassicBroker, watching


async def test_a_thousand_connections_push_out_no_session(port: ClassicBroker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        terminal = await watching(port)
        await port.call(SCREEN + b"\x1b[2;1H" + b"x" * MIN_DRAWN)
        rank = await port.listed(terminal, f"{HOST}:?1")
        silent = [await port.call() for _ in range(1000)]
        pushed_out = await silent[0].rest()
        assert f"holds {MAX_CALLERS}".encode() in pushed_out
        await silent[1000 - MAX_CALLERS].rest()
        driver = await port.broker.seated(rank.key)
        await driver.expect_data()
        await port.call(SCREEN)
        await port.listed(terminal, f"{HOST}:?2")
        assert len(port.classic) <= MAX_CALLERS
        await asyncio.gather(*(stock.close() for stock in silent))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
