"""Which frame of a stop is looked at: debuggers show it first, and questions are about it while none is open.

The user has chosen the frame of a stop by a call, a breakpoint or a step. Elsewhere, as after a break-in, the stop is
mostly inside of a library, and its user's own frame is meant.
"""

from __future__ import annotations

from types import FrameType
from typing import Protocol

from dbg_agent.engines.engine import Engine
from dbg_agent.stop.crash import Crash
from dbg_agent.stop.own_frames import FrameAt, NoSuchFrame, find_frame, frames_of, frames_of_traceback, users_frame
from dbg_agent.stop.stacks import place_of
from dbg_wire.messages import Message, Notice
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted

CHOSEN_BY_USER = "breakpoint"
"""The reason of stops whose frame the user has chosen."""


class ViewedStop(Protocol):
    """The parts of a stop that a viewpoint needs."""

    frame: FrameType | None
    crash: Crash | None

    def open_engine(self) -> Engine | None:
        """Return the debugger that is open on this stop."""

    def looked_at(self) -> FrameType | None:
        """Return the frame that the open debugger shows, or else the one that it would show first."""

    def send(self, message: Message) -> None:
        """Have a message sent."""


class Viewpoint:
    """The frame of the current stop that is looked at; methods run in the stopped thread."""

    def __init__(self, stop: ViewedStop) -> None:
        self._stop = stop
        self.opening: FrameType | None = None
        """The frame that a debugger shows first; None if that is the frame of the stop."""

    def begin(self, reason: str) -> None:
        """Choose the frame for a stop that begins for this reason; its frame and its crash are known."""
        usual = None if reason == CHOSEN_BY_USER else users_frame(self.frames())
        self.opening = usual[0] if usual is not None and usual[0] is not self._stop.frame else None

    def end(self) -> None:
        """Forget the frame: the thread moves."""
        self.opening = None

    def frames(self) -> list[FrameAt]:
        """Return the program's frames at this stop, outermost first."""
        if self._stop.crash is not None:
            return frames_of_traceback(self._stop.crash.error.__traceback__)
        return frames_of(self._stop.frame)

    def find(self, wanted: str) -> FrameAt | None:
        """Return the frame that a user asks for, or the one that is looked at if ``wanted`` is empty.

        Return None if the thread is not halted; raise NoSuchFrame.
        """
        if wanted:
            return find_frame(self.frames(), wanted)
        shown = self._stop.looked_at()
        if shown is None:
            return None
        return next((at for at in self.frames() if at[0] is shown), (shown, shown.f_lineno or 0))

    def is_usual(self, at: FrameAt) -> bool:
        """Tell whether this is the frame that a debugger shows first, if nobody asks for another one."""
        return at[0] is (self.opening or self._stop.frame)

    def open_at(self, wanted: str) -> None:
        """Show the frame that a user asks for, now or when a debugger opens; raise NoSuchFrame."""
        frame = find_frame(self.frames(), wanted)[0]
        self.opening = frame if frame is not self._stop.frame else None
        engine = self._stop.open_engine()
        if engine is not None:
            engine.select(frame)

    def open_if_there(self, wanted: str) -> None:
        """Show the frame that a user asks for, or tell the terminals that there is none."""
        try:
            self.open_at(wanted)
        except NoSuchFrame as error:
            self._stop.send(fitted(Notice, text=str(error)))

    def sentence(self) -> str:
        """Say in which frame a debugger opens and what that frame has called; empty at the frame of the stop."""
        frames = self.frames() if self.opening is not None else []
        for at in frames[:-1]:
            if at[0] is self.opening:
                return f"in {_shown(at)}, inside {_shown(frames[-1])}; `d` goes down to it"
        return ""


def place_at(at: FrameAt) -> Place:
    """Return the place of a frame at its line."""
    return place_of(at[0], at[1])


def _shown(at: FrameAt) -> str:
    place = place_at(at)
    return f"{place.function} {place.file.rpartition('/')[2]}:{place.line}"
