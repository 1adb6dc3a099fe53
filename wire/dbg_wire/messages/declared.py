"""The base of every control message: a record that names the roles that may send it."""

import typing
from typing import TYPE_CHECKING, Any, ClassVar

from dbg_wire.messages.vocabulary import Sender
from dbg_wire.records.record import Record, RecordType

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
