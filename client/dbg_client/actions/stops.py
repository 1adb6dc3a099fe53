"""Ask ranks what became of the stops that their job was started with."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_wire.errors import PeerError
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.ranks import RankInfo, RankState
from dbg_wire.stop_states import StopState, decode_states

from ..core.asking import Asker
from ..views.stop_table import RankStops, show_stops


async def ask_stops(asker: Asker, ranks: Sequence[RankInfo]) -> str:
    """Return a table of the stops, of all that these ranks have. Raises what the asker raises."""
    answers = await asker.ask(Action.WHERE, ranks, stops=True)
    return show_stops([_read(rank, answer) for rank, answer in zip(ranks, answers, strict=True)])


def _read(rank: RankInfo, answer: RankAnswer) -> RankStops:
    if answer.kind is not Kind.VALUE:
        return RankStops(rank, why=answer.text)
    if rank.state is RankState.UNRESPONSIVE:
        return RankStops(rank, why="unresponsive")
    states: list[StopState] | None = None
    try:
        states = decode_states(answer.rows)
    except PeerError as error:
        return RankStops(rank, why=str(error))
    if states is None:
        return RankStops(rank, why="does not know its stops: its agent, or the broker, is of an older release")
    return RankStops(rank, states)
