"""A command beside a rank: how a question names it, and how an answer tells of its output and its end.

The question's text is a JSON list, the program and its arguments. The rows of the answer are a marker, a JSON object,
and the output in pieces.
"""

import json
from collections.abc import Sequence

from .bounds import Count, Integer, InvalidMessage, Sentence
from .errors import PeerError, printable
from .limits import KIB, MAX_TEXT
from .records import Record, decode_record, encode_record

MARKER = "command"

MAX_FIRST, MAX_LAST = 64 * KIB, 32 * KIB
"""Bytes of a command's output that are kept, the first and the last: with every byte escaped below the bound of an
answer. What a listing begins with matters, and so does the error with which a command ends."""


class CommandEnd(Record):
    """How a command has ended.

    ``status`` is its exit status, negative for a signal. ``left_out`` are the bytes of its output that are not told.
    ``ended`` says why the guard has ended it, as in ``after 10 s``; empty if it has ended by itself.
    """

    status: Integer | None = None
    left_out: Count = 0
    ended: Sentence = ""


def encode_command(words: Sequence[str]) -> str:
    """Return the text of a question."""
    return json.dumps(list(words))


def decode_command(text: str) -> list[str]:
    """Return the program and its arguments. Raises PeerError for a text that is none."""
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    is_command = isinstance(words, list) and words and all(isinstance(word, str) for word in words)
    if not is_command or not words[0] or any("\0" in word for word in words):
        raise PeerError("a command that can't be read")
    return list(words)


def encode_output(end: CommandEnd, text: str) -> tuple[str, ...]:
    """Return the rows of an answer."""
    pieces = (text[at : at + MAX_TEXT] for at in range(0, len(text), MAX_TEXT))
    return (MARKER, encode_record(end), *pieces)


def decode_output(rows: Sequence[str]) -> tuple[str, CommandEnd] | None:
    """Return what a command printed and how it ended, None for an answer without. Raises PeerError for wrong rows."""
    if not rows or rows[0] != MARKER:
        return None
    try:
        end: CommandEnd = decode_record(CommandEnd, rows[1] if len(rows) > 1 else "")
    except InvalidMessage as error:
        raise PeerError(f"the end of a command that can't be read ({printable(str(error))})") from None
    return "".join(rows[2:]), end
