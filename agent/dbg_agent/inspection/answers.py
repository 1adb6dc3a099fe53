"""The answer to one question of an IDE: what the inspector tells, or a sentence why it can't."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from dbg_agent.inspection.handles import NoSuchHandle
from dbg_agent.inspection.inspector import Inspector, Place, Refused
from dbg_agent.inspection.source_text import NotLoaded
from dbg_agent.stop.own_frames import FrameAt
from dbg_wire.messages import Ask, Kind
from dbg_wire.records.inspection import Inspection, InspectionRecord, cut_to_fit


def inspected(
    inspector: Inspector, ask: Ask, at: FrameAt, known_locals: MutableMapping[str, Any] | None
) -> tuple[Kind, str, tuple[InspectionRecord, ...]]:
    """Return the kind, the text and the rows of an answer about the frame ``at``.

    ``known_locals`` are those that an open debugger has of this frame, if one shows it.
    """
    question = ask.inquiry
    if not isinstance(question, Inspection):
        return Kind.ERROR, "no question about values", ()
    try:
        place = Place(at[0], known_locals, ask.seconds / 2)
        return Kind.VALUE, "", cut_to_fit(inspector.answer(question, place))
    except (Refused, NoSuchHandle, NotLoaded) as error:
        return Kind.ERROR, str(error), ()
