"""Effects: values that the attachment returns, and that a seat and its user carry out."""

from __future__ import annotations

import msgspec

from dbg_wire.codec import Input
from dbg_wire.messages import Message


class Effect(msgspec.Struct, frozen=True):
    """Consequence of an event."""


class Send(Effect, frozen=True):
    """Send this to the broker; it is lost while the link is down."""

    item: Message | Input


class Open(Effect, frozen=True):
    """Show the session, because the broker has granted the seat. Returned once for each rank attached to."""


class Show(Effect, frozen=True):
    """Write the rank's bytes to the terminal."""

    data: bytes


class Blank(Effect, frozen=True):
    """Clear the debugger's rows, bring the terminal to a known state, and write this text there."""

    text: str = ""


class Bell(Effect, frozen=True):
    """Ring the bell, because typed keys had no effect."""


class Finish(Effect, frozen=True):
    """End the session: ``error`` is the reason, None if the rank resumed. An error other than DbgError is a bug."""

    error: BaseException | None


class Wake(Effect, frozen=True):
    """Call ``tick`` after this many seconds: some work is due before the next regular call."""

    seconds: float


class LogText(Effect, frozen=True):
    """Show the next bytes of a line debugger's log."""

    data: bytes


class Cut(Effect, frozen=True):
    """Show that ``count`` bytes of the log are lost between the bytes shown and the next ones."""

    count: int


class Note(Effect, frozen=True):
    """Show a sentence, written by the client, among a line debugger's output."""

    text: str


class Completed(Effect, frozen=True):
    """Show the rank's completions for the request with this number."""

    request: int
    matches: tuple[str, ...]


Effects = list[Effect]
