"""A rank that can no longer send: its guard says where the rank is, and what ended it."""

from __future__ import annotations

from pathlib import Path

from dbg_wire.records.ranks import RankState
from tests.e2e.test_guard import STUCK_SECONDS, Job
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import start_ranks
from tests.support.raw_terminal import listed, raw_terminal

STUCK_AT_ONCE = f"""\
import ctypes, os
from dbg_agent.guard import rank_side as guard
from dbg_agent import install
sleep = ctypes.PyDLL(None).sleep
guard.BEAT_SECONDS, guard.STUCK_SECONDS = 0.2, 0.6
install()
sleep({STUCK_SECONDS})
os.write(1, b"WENT ON")
"""


async def test_a_rank_that_is_stuck_before_it_came_to_register_is_listed(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    async with raw_terminal(broker) as peer:
        (rank,) = start_ranks(processes, home, STUCK_AT_ONCE, 1)
        found = await listed(peer, lambda listed: listed.state is RankState.UNRESPONSIVE)
        assert (found.pid, found.rank, found.script) == (rank.pid, 0, str(home / "rank_script.py"))
        job = Job(broker, rank, peer, home)
        # The kernel gives a rank on a busy machine its turn to write its stack after a while.
        while not (answer := await job.where(found)).frames:
            pass
        assert answer.frames[-1].line == STUCK_AT_ONCE.splitlines().index(f"sleep({STUCK_SECONDS})") + 1
        await listed(peer, lambda listed: listed.state is RankState.EXITED)
        assert rank.wait() == 0
        assert rank.text() == "WENT ON"
