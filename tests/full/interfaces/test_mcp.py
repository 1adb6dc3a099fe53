"""A coding agent's client, the protocol's own library, uses the tools on real ranks."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.e2e.test_mcp import agent, call
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.time_unit import seconds


def test_an_agent_starts_a_program_and_waits_for_its_stop(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = home / "train.py"
    script.write_text("loss = 0.5\nprint('began', flush=True)\nloss += 1\n")
    told = asyncio.run(start_and_wait(home, script))
    assert told.startswith("started (pid ")
    output = Path(told.rpartition(" is in ")[2])
    assert output.parent.stat().st_mode & 0o077 == 0
    assert "began" in output.read_text()


async def start_and_wait(home: Path, script: Path) -> str:
    """Start a program that stops at its third line, look at it there and let it end; return what `run` tells."""
    async with agent(home) as session:
        nowhere = await call(session, "run", command=[sys.executable], directory="/no/such/place")
        assert nowhere.startswith("ERROR ")
        assert "/no/such/place" in nowhere
        told = await call(session, "run", command=[sys.executable, str(script)], stop_at=f"{script}:3")
        stop = await call(session, "wait_for_stop", seconds=seconds(30))
        assert f"{script}:3" in stop, stop
        assert "0.5" in await call(session, "eval", expression="loss")
        await call(session, "continue")
        return told
