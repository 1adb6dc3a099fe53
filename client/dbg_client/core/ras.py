"""Ask NCCL's RAS about a job, by the guard of one of its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import LIVE_STATES, RankInfo
from dbg_wire.records.ras import RasStatus, status_in

MAX_HOSTS = 3
"""Hosts that are asked, one after the other, until one answers: each answer tells of the whole job."""


@dataclass(frozen=True, slots=True)
class RasReply:
    """What RAS has told, and by which rank; ``lack`` says why there is nothing."""

    status: RasStatus | None
    rank: RankInfo | None = None
    lack: str = ""


async def ask_ras(asker: Asker, ranks: Sequence[RankInfo]) -> RasReply:
    """Return what the RAS of one job tells; ``ranks`` are those of it that use NCCL.

    Raises what the asker raises.
    """
    lack = "no rank that uses NCCL is there"
    for rank in _one_of_each_host(ranks)[:MAX_HOSTS]:
        (answer,) = await asker.ask(Action.RAS, [rank])
        status = status_in(answer.rows) if answer.kind is Kind.VALUE else None
        if status is not None:
            return RasReply(status, rank)
        lack = answer.text
    return RasReply(None, lack=lack)


def _one_of_each_host(ranks: Sequence[RankInfo]) -> list[RankInfo]:
    chosen: dict[str, RankInfo] = {}
    for rank in ranks:
        if rank.state in LIVE_STATES:
            chosen.setdefault(rank.host, rank)
    return list(chosen.values())
