"""What ranks tell of their collectives, asked through a real broker as a terminal asks it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from dbg_client.core.asking import Asker
from dbg_client.core.switchboard import switchboard_to
from dbg_wire.messages import Action, DetailLevel
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, Evidence, evidence_in
from tests.support.time_unit import seconds

Check = Callable[[dict[int, Evidence]], None]
"""A function that raises AssertionError for what ranks tell, by their numbers, unless that is what it expects."""


def ask_until(home: Path, n: int, check: Check, timeout: float) -> None:
    """Ask ``n`` ranks until they tell what is expected; raise what the last check raised after ``timeout`` seconds.

    The ranks answer one after another, so an answer may be older than what another rank waits for.
    """
    asyncio.run(_ask(home, n, check, timeout))


async def _ask(home: Path, n: int, check: Check, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    switchboard = switchboard_to(None, seconds(10), {**os.environ, "DBG_HOME": str(home)})
    await switchboard.dial()
    try:
        await switchboard.until(lambda: len(switchboard.directory.ranks) == n or None, timeout)
        while True:
            ranks = switchboard.directory.ranks
            answers = await Asker(switchboard).ask(Action.WHERE, ranks, look=DetailLevel.COLLECTIVES)
            try:
                check(
                    {rank.rank: evidence_in(one.rows) or Evidence() for rank, one in zip(ranks, answers, strict=True)}
                )
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            # Each look is work for all ranks, which have to get to what is expected.
            await asyncio.sleep(0.1)
    finally:
        await switchboard.close()


def unfinished(evidence: Evidence) -> list[CollectiveSeen]:
    return [one for one in evidence.collectives if one.state is not CollectiveState.COMPLETED]


def completed(evidence: Evidence) -> list[CollectiveSeen]:
    return [one for one in evidence.collectives if one.state is CollectiveState.COMPLETED]
