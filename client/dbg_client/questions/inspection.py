"""Look into one stopped rank as an IDE does: values in levels, assignments, source, the exception."""

from __future__ import annotations

from dbg_client.core.asking import Asker
from dbg_wire.messages import Action, RankAnswer
from dbg_wire.records.inspection import Inspected, Inspection, inspected_in
from dbg_wire.records.ranks import RankInfo


async def inspect(
    asker: Asker, rank: RankInfo, question: Inspection, *, frame: str = "", live: bool = False
) -> tuple[RankAnswer, Inspected]:
    """Ask one rank about its values, and return its answer with what its rows tell.

    What is told is empty if the answer is no value: the answer's text says why. With ``live`` a rank that runs tells
    its source, too. Raises BadInput for an expression that is too long, and DbgError if the broker fails.
    """
    (answer,) = await asker.ask(Action.INSPECT, [rank], inquiry=question, live=live, frame=frame)
    return answer, inspected_in(answer.rows)
