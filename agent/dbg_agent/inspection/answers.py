"""The answer to one question of an IDE: what the inspector tells, or a sentence why it can't."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from dbg_wire.errors import PeerError
from dbg_wire.inspection import decode_inspection, encode_inspected
from dbg_wire.messages import Ask, Kind

from ..stop.own_frames import FrameAt
from .handles import NoSuchHandle
from .inspector import Inspector, Place, Refused
from .source_text import NotLoaded


def inspected(
    inspector: Inspector, ask: Ask, at: FrameAt, known_locals: MutableMapping[str, Any] | None
) -> tuple[Kind, str, tuple[str, ...]]:
    """Return the kind, the text and the rows of an answer about the frame ``at``.

    ``known_locals`` are those that an open debugger has of this frame, if one shows it.
    """
    try:
        question = decode_inspection(ask.text)
        place = Place(at[0], known_locals, ask.seconds / 2)
        return Kind.VALUE, "", encode_inspected(inspector.answer(question, place))
    except (Refused, NoSuchHandle, NotLoaded, PeerError) as error:
        return Kind.ERROR, str(error), ()
