"""The base of every control message, and every kind of row and inquiry that an answer or a question holds."""

import typing
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dbg_wire.messages.vocabulary import Sender
from dbg_wire.records.beside import ChildProcess, CommandEnd, CommandLine
from dbg_wire.records.bounds import FreeText, Items
from dbg_wire.records.breakpoints import BreakpointState, BreakpointsWish
from dbg_wire.records.evidence import (
    CollectiveSeen,
    GroupSeen,
    OtherProcess,
    ProcessSeen,
    SourceSeen,
    ThreadWait,
)
from dbg_wire.records.inspection import (
    Completion,
    ExceptionSeen,
    Inspection,
    Part,
    PartsQuestion,
    ScreenSize,
    SourceText,
    Variable,
)
from dbg_wire.records.record import Record, RecordType
from dbg_wire.records.samples import GroupArrivals, RankSample, SampledPlace, SampleQuestion

AnyRow = (
    FreeText
    | SourceSeen
    | GroupSeen
    | CollectiveSeen
    | ThreadWait
    | OtherProcess
    | ProcessSeen
    | Variable
    | Completion
    | SourceText
    | ExceptionSeen
    | BreakpointState
    | Part
    | CommandEnd
    | RankSample
    | GroupArrivals
    | SampledPlace
)
"""A line of a screen, a piece of a command's output, or a record of what a rank tells."""

Rows = Annotated[tuple[AnyRow, ...], Items]

AnyInquiry = Inspection | BreakpointsWish | PartsQuestion | CommandLine | ChildProcess | ScreenSize | SampleQuestion


entered: list[type["Message"]] = []
"""Every class of message, in the order of their declaration."""


class MessageType(RecordType):
    """The class of message classes: it enters each in the list of all; its name is the message's type on the wire."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        sender: Sender | tuple[Sender, ...] = (),
        **options: Any,
    ) -> "MessageType":
        """Make one class."""
        made: Any = super().__new__(mcs, name, bases, namespace, tag_field="type", tag=name.lower(), **options)
        if sender:
            made.sender = frozenset(sender if isinstance(sender, tuple) else (sender,))
            entered.append(made)
        return typing.cast(MessageType, made)


class Message(Record, metaclass=MessageType):
    """A control message; ``sender`` holds the roles that may send it, which the class statement names."""

    sender: ClassVar[frozenset[Sender]]

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, sender: Sender | tuple[Sender, ...], **options: Any) -> None: ...
