"""Ask ranks what became of the stops that their job was started with."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_client.core.asking import Asker
from dbg_client.views.stop_table import RankStops, show_stops
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.line_breakpoints import StopState
from dbg_wire.records.ranks import RankInfo, RankState


async def ask_stops(asker: Asker, ranks: Sequence[RankInfo]) -> str:
    """Return a table of the stops, of all that these ranks have. Raises what the asker raises."""
    answers = await asker.ask(Action.WHERE, ranks, stops=True)
    return show_stops([_read(rank, answer) for rank, answer in zip(ranks, answers, strict=True)])


def _read(rank: RankInfo, answer: RankAnswer) -> RankStops:
    if answer.kind is not Kind.VALUE:
        return RankStops(rank, why=answer.text)
    if rank.state is RankState.UNRESPONSIVE:
        return RankStops(rank, why="unresponsive")
    if rank.is_classic:
        return RankStops(rank, why="a stock debugger has no stops that a job was started with")
    return RankStops(rank, [row for row in answer.rows if isinstance(row, StopState)])
