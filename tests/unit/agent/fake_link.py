"""A rank's link without a network: what the rank sends is given to a test, at once and in the thread that sends it."""

from __future__ import annotations

from collections.abc import Callable

from dbg_agent.link.link import Link, LinkOwner
from dbg_agent.link.outgoing import Outgoing
from dbg_wire.errors import DbgError

Call = Callable[[], None]


def never(_seconds: float, _call: Call) -> None:
    """Keep no time, as before a link is up."""


class FakeNetwork:
    """The receiver of a rank's output, its messages, and the news that a report is due; ``later`` keeps time for it."""

    def __init__(
        self,
        draw: Callable[[bytes], object],
        hear: Callable[[str], object],
        notify: Call,
        later: Callable[[float, Call], None] = never,
    ) -> None:
        self.draw, self.hear, self.notify = draw, hear, notify
        self.later = later

    def link(self, owner: LinkOwner) -> Link:
        """Return a rank's link to the test."""
        return FakeLink(owner, self)


class FakeOutgoing(Outgoing):
    """A queue that passes everything on at once."""

    def __init__(self, network: FakeNetwork) -> None:
        super().__init__(lambda: None, lambda: None)
        # The callable itself: a test may give one in C, which Ctrl-C can't interrupt halfway.
        self.put_output = network.draw  # type: ignore[assignment, method-assign]
        self.put_message = network.hear  # type: ignore[assignment, method-assign]
        self.put_report = network.notify  # type: ignore[method-assign]


class FakeLink(Link):
    """A link that is connected to a test."""

    def __init__(self, owner: LinkOwner, network: FakeNetwork) -> None:
        super().__init__(owner)
        self.outgoing = FakeOutgoing(network)
        self._network = network

    def start(self) -> None:
        """Start nothing."""

    def wait_connected(self, timeout: float | None, unanswered: float = 0.0) -> DbgError | None:
        return None

    def call_later(self, seconds: float, call: Call) -> None:
        self._network.later(seconds, call)

    def close(self) -> None:
        """Close nothing."""
