"""What follows from things that happen at a rank: values that the model returns and the session carries out."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire.codec import Input
from dbg_wire.errors import DbgError
from dbg_wire.messages import Message, Source


@dataclass(frozen=True, slots=True)
class Send:
    """Give this to the broker; lost while the link is down."""

    item: Message | Input


@dataclass(frozen=True, slots=True)
class Open:
    """Show the session: this terminal has a seat. Comes once for each rank attached to."""


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


@dataclass(frozen=True, slots=True)
class Wake:
    """Call ``tick`` in this many seconds: something is due before the next regular call."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LogText:
    """Show what follows in a line debugger's log."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """Say that ``count`` bytes of the log are lost between what was shown and what follows."""

    count: int


@dataclass(frozen=True, slots=True)
class Note:
    """Show a sentence of the client among a line debugger's output."""

    text: str


@dataclass(frozen=True, slots=True)
class Look:
    """Show the lines round the current one, if the user wants to see them."""

    source: Source


@dataclass(frozen=True, slots=True)
class Completed:
    """Hand on the rank's answer to the completion with this ``request`` number."""

    request: int
    matches: tuple[str, ...]


Effect = Send | Open | Show | Blank | Bell | Finish | Wake | LogText | Cut | Note | Look | Completed
Effects = list[Effect]
