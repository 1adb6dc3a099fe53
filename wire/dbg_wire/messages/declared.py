"""What every control message is: a record that says who may send it."""

from typing import TYPE_CHECKING, Any, ClassVar

from ..records import Record
from .vocabulary import Sender

entered: list[type["Message"]] = []
"""Every class of message, in the order of their declaration."""


class Message(Record):
    """Be one control message; ``sender`` names the roles that may send it, as the class statement does."""

    if TYPE_CHECKING:
        sender: ClassVar[frozenset[Sender]]

    def __init_subclass__(cls, *, sender: Sender | tuple[Sender, ...], **options: Any) -> None:
        """Enter a class of message."""
        super().__init_subclass__(**options)
        cls.sender = frozenset(sender if isinstance(sender, tuple) else (sender,))
        entered.append(cls)
