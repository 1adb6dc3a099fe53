"""``dbg-attach --replay FILE``: play a recording in a terminal, or print what it says."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from dbg_wire.errors import BadInput, printable

from ..streams import has_cursor, printing, tell, write_result
from ..words.settings import CommandSettings
from .cast import MARKER, OUTPUT
from .face import Replay
from .player import Player
from .tape import Tape
from .text import PlainText, clock


async def replay(settings: CommandSettings) -> int:
    """Play the file of ``settings`` and return the exit status. Raise BadInput if it is no recording.

    Without a terminal its text is printed, without delay.
    """
    name = settings.replay or ""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and has_cursor(os.environ)
    try:
        with open(name, "rb") as file:  # noqa: ASYNC230, PTH123 - a recording is read between two keys
            if not file.seekable():
                raise BadInput(f"{printable(name)} can't be read from any place", "save it to a file first")
            tape = await asyncio.to_thread(Tape, file, name, settings.idle)
            if is_terminal:
                await Replay(Player(tape, time.monotonic())).run()
            else:
                _print(tape)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise BadInput(f"{printable(name)} can't be read ({error.strerror})", "name a .cast file") from None
    if tape.is_cut or tape.broken:
        tell(f"dbg-attach: {_what_is_wrong(tape)}")
    return 0


def _print(tape: Tape) -> None:
    plain, ends_line = PlainText(), True
    for moment in tape.moments():
        if moment.event.code == OUTPUT and (text := plain.feed(moment.event.data)):
            write_result(text)
            ends_line = text.endswith("\n")
        elif moment.event.code == MARKER:
            start = "" if ends_line else "\n"
            write_result(f"{start}--- {clock(moment.at)} {printable(moment.event.data)}\n")
            ends_line = True
    with printing():
        sys.stdout.write("" if ends_line else "\n")


def _what_is_wrong(tape: Tape) -> str:
    broken = f"{tape.broken} line{'s' if tape.broken != 1 else ''} of the recording can't be read and were left out"
    if tape.is_cut:
        return (
            "the recording ends in the middle of a line, as its broker was killed or still writes; the rest was shown"
        )
    return f"{broken}; the rest was shown"
