"""What follows from things that happen at a rank: values that the model returns and the session carries out."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire.codec import Input
from dbg_wire.errors import DbgError
from dbg_wire.messages import Message


@dataclass(frozen=True, slots=True)
class Send:
    """Give this to the broker; lost while the line is down."""

    item: Message | Input


@dataclass(frozen=True, slots=True)
class Open:
    """The seat is ours: show the session. Comes once for each rank attached to."""


@dataclass(frozen=True, slots=True)
class Show:
    """Give the rank's bytes to the terminal."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Blank:
    """Clear the debugger's rows, bring the terminal to a known state, and write this text there."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Bell:
    """Ring: something that was typed had no effect."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The session is over. ``error`` has the sentence and the exit status; None: the rank went on."""

    error: DbgError | None


Effect = Send | Open | Show | Blank | Bell | Finish
Effects = list[Effect]
