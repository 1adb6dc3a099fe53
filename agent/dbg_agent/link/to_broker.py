"""What a rank tells: messages and reports to its broker, and warnings to people at the job's stderr."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dbg_agent.link.outgoing import Outgoing
from dbg_agent.process.log import Logger
from dbg_agent.process.stderr import say
from dbg_agent.stop.inbox import Loss
from dbg_wire.codec import LogForm
from dbg_wire.errors import DbgError
from dbg_wire.messages import Discarded, Message
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted

logger = Logger("dbg_agent.rank")

MAX_WARNINGS = 20
"""Warnings that a rank may write to the job's stderr in the life of a process, each once."""


@dataclass(slots=True)
class ProgramState:
    """What became of the program beside its present stop."""

    missing: DbgError | None = None
    """Why the last stop found no broker; None if it found one."""
    waits_at_stop: bool = False
    """Whether a stop waits, or has waited, for a broker that doesn't answer: it has said so."""
    passed: str = ""
    """The stop that the program has passed without a broker since its last one, and why; the end of a sentence."""
    exit_status: int | None = None
    last_words: tuple[str, tuple[Place, ...]] | None = None
    """An uncaught exception as a text, and its traceback; the exception itself would keep all its frames alive."""


class Addressed(Protocol):
    """Knows the rank's number and its address, which the broker may change."""

    @property
    def number(self) -> int:
        """Return the rank's global number."""

    @property
    def address(self) -> str:
        """Return the rank's address for terminals."""


class ToBroker:
    """Queues what the rank tells; from any thread."""

    def __init__(
        self, who: Addressed, outgoing: Outgoing, call_later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self._who = who
        self._outgoing = outgoing
        self.call_later = call_later
        """Call something in the link's thread after some seconds; never if the link does not run."""
        self.warned: set[str] = set()
        """The warnings on the job's stderr so far."""

    @property
    def number(self) -> int:
        """Return the rank's global number."""
        return self._who.number

    @property
    def address(self) -> str:
        """Return the rank's address for terminals."""
        return self._who.address

    def send(self, message: Message) -> None:
        """Queue a message, to be sent as soon as there is a connection."""
        from dbg_wire.codec import encode

        logger.debug("says %s", LogForm(message))
        self._outgoing.put_message(encode(message))

    def publish(self) -> None:
        """Queue a report of this rank's state, which is made when it is sent."""
        self._outgoing.put_report()

    def report_loss(self, loss: Loss | None) -> None:
        """Tell which keys the debugger will never get, if any."""
        if loss is not None:
            self.send(
                fitted(Discarded, generation=loss.generation, offset=loss.offset, count=loss.count, reason=loss.reason)
            )

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""
        if text in self.warned or len(self.warned) >= MAX_WARNINGS:
            return
        self.warned.add(text)
        logger.info("warns: %s", text)
        say(f"{self.address}: {text}")
