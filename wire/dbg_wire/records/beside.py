"""What guards are asked for, and tell: a command beside the rank, its output and end."""

import os
from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta

from dbg_wire.limits import KIB, MAX_ITEMS, MAX_TEXT
from dbg_wire.records.record import Count, Inquiry, Integer, InvalidMessage, Row, Sentence, elements

MAX_FIRST, MAX_LAST = 64 * KIB, 32 * KIB
"""Bytes of a command's output that are kept, the first and the last: with every byte escaped below the bound of an
answer. What a listing begins with matters, and so does the error with which a command ends."""

Argument = Annotated[bytes, Meta(max_length=MAX_TEXT)]
"""An argument as the kernel takes it, which is not always a text; JSON has it in base64."""


class CommandLine(Inquiry, tag="command"):
    """A command to run: the program and its arguments."""

    arguments: Annotated[tuple[Argument, ...], elements(MAX_ITEMS)]

    def __post_init__(self) -> None:
        """Refuse what no kernel would start."""
        if not self.arguments or not self.arguments[0]:
            raise InvalidMessage("command", ".arguments name no program")
        if any(0 in one for one in self.arguments):
            raise InvalidMessage("command", ".arguments have a zero byte")

    @property
    def words(self) -> list[str]:
        """Return the program and its arguments as Python has them."""
        return [os.fsdecode(one) for one in self.arguments]


class CommandEnd(Row, tag="end"):
    """How a command has ended.

    ``status`` is its exit status, negative for a signal. ``left_out`` are the bytes of its output that are not told.
    ``ended`` says why the guard has ended it, as in ``after 10 s``; empty if it has ended by itself.
    """

    status: Integer | None = None
    left_out: Count = 0
    ended: Sentence = ""


def command_line(words: Sequence[str]) -> CommandLine:
    """Return the command of a program and its arguments."""
    return CommandLine(arguments=tuple(map(os.fsencode, words)))


def output_rows(end: CommandEnd, text: str) -> tuple[CommandEnd | str, ...]:
    """Return the rows of an answer."""
    return (end, *(text[at : at + MAX_TEXT] for at in range(0, len(text), MAX_TEXT)))


def output_in(rows: Iterable[object]) -> tuple[str, CommandEnd] | None:
    """Return what a command printed and how it ended, None for an answer without."""
    listed = tuple(rows)
    end = next((row for row in listed if isinstance(row, CommandEnd)), None)
    return None if end is None else ("".join(row for row in listed if isinstance(row, str)), end)
