"""A rank's link without a network: what the rank says is given to a test, at once and in the thread that says it."""

from __future__ import annotations

from collections.abc import Callable

from dbg_agent.link.link import Link, LinkOwner
from dbg_agent.link.outgoing import Outgoing
from dbg_wire.errors import DbgError

Call = Callable[[], None]


def never(_seconds: float, _call: Call) -> None:
    """Keep no time, as before a link is up."""


class FakeOutgoing(Outgoing):
    """Pass on output, control messages, and the news that a report is due."""

    def __init__(self, draw: Callable[[bytes], object], hear: Callable[[str], object], tell: Call) -> None:
        super().__init__(lambda: None, lambda: None)
        self.put_output = draw  # type: ignore[assignment, method-assign] # itself: a test may want one written in C
        self.put_message = hear  # type: ignore[assignment, method-assign]
        self.put_report = tell  # type: ignore[method-assign]


class FakeLink(Link):
    """Be connected to a test; ``later`` keeps its time."""

    def __init__(self, owner: LinkOwner, outgoing: FakeOutgoing, later: Callable[[float, Call], None] = never) -> None:
        super().__init__(owner)
        self.outgoing = outgoing
        self.later = later

    def start(self) -> None:
        """Start nothing."""

    def wait_connected(self, timeout: float | None, unanswered: float = 0.0) -> DbgError | None:
        """Be connected."""
        return None

    def call_later(self, seconds: float, call: Call) -> None:
        """Have the test keep time."""
        self.later(seconds, call)

    def close(self) -> None:
        """Close nothing."""
