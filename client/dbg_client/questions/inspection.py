"""Look into one stopped rank as an IDE does: values in levels, assignments, source, the exception."""

from __future__ import annotations

from dbg_wire.errors import BadInput, PeerError, printable
from dbg_wire.inspection import Inspected, Inspection, decode_inspected, encode_inspection
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.ranks import RankInfo
from dbg_wire.records import fitted

from ..core.asking import Asker


async def inspect(
    asker: Asker, rank: RankInfo, question: Inspection, *, frame: str = "", live: bool = False
) -> tuple[RankAnswer, Inspected]:
    """Ask one rank about its values, and return its answer with what its rows tell.

    What is told is empty if the answer is no value: the answer's text says why. With ``live`` a rank that runs tells
    its source, too. Raises BadInput for an expression that is too long, and DbgError if the broker fails.
    """
    (answer,) = await asker.ask(Action.INSPECT, [rank], question_text(question), live=live, frame=frame)
    return read_inspected(answer)


def question_text(question: Inspection) -> str:
    """Return the text of a question. Raises BadInput if it is too long: a rank could not read its beginning alone."""
    text = encode_inspection(question)
    if len(text) > MAX_TEXT:
        longest = max(question.text, question.name, key=len)
        raise BadInput(f"{printable(longest, 60)} has {len(longest)} characters", "give a shorter expression")
    return text


def read_inspected(answer: RankAnswer) -> tuple[RankAnswer, Inspected]:
    """Return an answer with what its rows tell; an error in place of rows that can't be read."""
    if answer.kind is not Kind.VALUE:
        return answer, Inspected()
    try:
        return answer, decode_inspected(answer.rows)
    except PeerError as error:
        return fitted(RankAnswer, key=answer.key, kind=Kind.ERROR, text=str(error)), Inspected()
