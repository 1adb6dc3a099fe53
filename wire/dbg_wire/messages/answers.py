"""The part of a rank's answer that the broker passes on unread."""

import msgspec

from dbg_wire.messages.declared import Rows
from dbg_wire.records.bounds import FreeText
from dbg_wire.records.ranks import Place, Stack, ThreadStacks
from dbg_wire.records.record import Record, encode_record


class AnswerBody(Record):
    """The content of a rank's answer.

    ``rows`` are a screen's lines, or what else a rank tells, each with its kind. ``frames`` is a stack, outermost
    first. ``exact`` is the digest of a value's whole content and ``digest`` the same without memory addresses; both are
    empty if the whole content was not read. With ``at_least`` the rank has been at the place of ``frames`` for longer
    than the answer's age. ``threads`` are all threads, if they were asked for. ``frame`` is where an expression or a
    command was run; None if it was not run.
    """

    text: FreeText
    rows: Rows = ()
    digest: FreeText = ""
    exact: FreeText = ""
    frames: Stack = ()
    at_least: bool = False
    threads: ThreadStacks = ()
    frame: Place | None = None


def body_of(body: AnswerBody) -> msgspec.Raw:
    """Return a body as it is in a message."""
    return msgspec.Raw(encode_record(body).encode())
