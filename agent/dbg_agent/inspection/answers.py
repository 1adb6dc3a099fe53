"""The answer to one question of an IDE: what the inspector tells, or a sentence why it can't."""

from __future__ import annotations

from collections.abc import MutableMapping
from types import FrameType
from typing import Any

from dbg_wire.errors import PeerError
from dbg_wire.inspection import decode_inspection, encode_inspected
from dbg_wire.messages import Ask, Kind

from ..engines.engine import Engine
from ..stop.own_frames import FrameAt
from .handles import NoSuchHandle
from .inspector import Inspector, Place, Refused
from .source_text import NotLoaded


def inspected(inspector: Inspector, ask: Ask, at: FrameAt, engine: Engine | None) -> tuple[Kind, str, tuple[str, ...]]:
    """Return the kind, the text and the rows of an answer about the frame ``at``.

    ``engine`` is the debugger that is open on the stop, None if none is.
    """
    try:
        question = decode_inspection(ask.text)
        place = Place(at[0], _known_locals(at[0], engine), ask.seconds / 2)
        return Kind.VALUE, "", encode_inspected(inspector.answer(question, place))
    except (Refused, NoSuchHandle, NotLoaded, PeerError) as error:
        return Kind.ERROR, str(error), ()


def _known_locals(frame: FrameType, engine: Engine | None) -> MutableMapping[str, Any] | None:
    if engine is None or getattr(engine.tracing, "curframe", None) is not frame:
        return None
    return getattr(engine.tracing, "curframe_locals", None)
