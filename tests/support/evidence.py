"""What ranks tell of their collectives, asked through a real broker as a terminal asks it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from dbg_client import Asker, Directory, link_to_broker
from dbg_client.core.waiting import until
from dbg_dial.deadline import within
from dbg_wire.evidence import CollectiveSeen, CollectiveState, Evidence, decode_evidence
from dbg_wire.messages import Action, Look
from tests.support.time_unit import seconds


def ask_evidence(
    home: Path, n: int, holds: Callable[[dict[int, Evidence]], bool], timeout: float
) -> dict[int, Evidence]:
    """Return the evidence of the ``n`` ranks by their numbers, as soon as ``holds`` is true of it."""
    return asyncio.run(_ask(home, n, holds, timeout))


async def _ask(home: Path, n: int, holds: Callable[[dict[int, Evidence]], bool], timeout: float) -> dict[int, Evidence]:
    deadline = time.monotonic() + timeout
    link = link_to_broker(None, seconds(10), {**os.environ, "DBG_HOME": str(home)})
    await link.open()
    found: dict[int, Evidence] = {}
    try:
        directory = Directory()
        await within(timeout, until(link, directory, lambda: len(directory.ranks) == n or None))
        while time.monotonic() < deadline:
            ranks = directory.ranks
            answers = await Asker(link, directory, seconds(10)).ask(Action.WHERE, ranks, look=Look.COLLECTIVES)
            found = {
                rank.rank: evidence
                for rank, answer in zip(ranks, answers, strict=True)
                if (evidence := decode_evidence(answer.rows)) is not None
            }
            if holds(found):
                return found
    finally:
        await link.close()
    raise AssertionError(f"never saw it; the last was {found}")


def unfinished(evidence: Evidence | None) -> list[CollectiveSeen]:
    """Return what a rank has called and not finished."""
    if evidence is None:
        return []
    return [one for one in evidence.collectives if one.state is not CollectiveState.COMPLETED]


def completed(evidence: Evidence) -> list[CollectiveSeen]:
    """Return what a rank has finished."""
    return [one for one in evidence.collectives if one.state is CollectiveState.COMPLETED]
