"""The base of every control message: a record that names the roles that may send it."""

from typing import TYPE_CHECKING, Any, ClassVar

from ..records import Record
from .vocabulary import Sender

entered: list[type["Message"]] = []
"""Every class of message, in the order of their declaration."""


class Message(Record):
    """A control message; ``sender`` holds the roles that may send it, which the class statement names."""

    if TYPE_CHECKING:
        sender: ClassVar[frozenset[Sender]]

    def __init_subclass__(cls, *, sender: Sender | tuple[Sender, ...], **options: Any) -> None:
        """Enter a class of message in the list of all."""
        super().__init_subclass__(**options)
        cls.sender = frozenset(sender if isinstance(sender, tuple) else (sender,))
        entered.append(cls)
