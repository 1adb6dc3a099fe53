"""Where the thread of the current stop is halted, and what it shows; only that thread changes it."""

from __future__ import annotations

from collections.abc import Awaitable
from types import FrameType

from dbg_agent.stop.stops import Crash


class Halt:
    """The frame of the stopped thread and what belongs to it, from one halt to the next."""

    def __init__(self) -> None:
        self.frame: FrameType | None = None
        """The frame in which the stopped thread is halted; None while it runs."""
        self.opening: FrameType | None = None
        """The frame that a debugger shows first; None if that is the frame of the stop."""
        self.crash: Crash | None = None
        """The crash for which the current stop keeps this rank, if any."""
        self.is_interrupted = False
        """Whether Ctrl-C was pressed during an unreported stop; the program's next line is interrupted then."""
        self.awaits_in: int | None = None
        """The thread whose code awaits what the user types as ``await …`` at the prompt of its stop."""
        self.awaitable: Awaitable[object] | None = None
        """The awaitable that was typed last."""
        self._stepped_to: tuple[int, int] | None = None
        """Frame id and line of the tracing's last halt: a stop point of that line must not stop there once more."""

    def take_awaitable(self) -> Awaitable[object] | None:
        """Return, once, what the user has typed as ``await …``."""
        typed, self.awaitable = self.awaitable, None
        return typed

    def uncaught(self) -> BaseException | None:
        """Return the exception of a crash at which the rank is kept; None for any other stop."""
        return self.crash.error if self.crash is not None else None

    def note(self, frame: FrameType) -> None:
        """Note that a step or a breakpoint has halted this frame at its present line."""
        self._stepped_to = (id(frame), frame.f_lineno)

    @property
    def was_stepped(self) -> bool:
        """Tell whether a step or a breakpoint has halted a frame, and :meth:`has_just_halted` has not told it."""
        return self._stepped_to is not None

    def has_just_halted(self, frame: FrameType) -> bool:
        """Tell, once for each halt, whether a step or a breakpoint has just halted this frame at its present line."""
        if self._stepped_to != (id(frame), frame.f_lineno):
            return False
        self._stepped_to = None
        return True
