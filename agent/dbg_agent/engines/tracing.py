"""What PuDB and pdb have in common in a rank: one thread steps at a time, and no fault of theirs ends the training.

Both are :class:`bdb.Bdb`; this class stands before the debugger's own in the order of bases.
"""

from __future__ import annotations

import bdb
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ..stop.inbox import LeaveDebugger, MoveOn, ProgramRaised, SwitchDebugger, WantedMove
from ..stop.program_end import is_at_end
from ..stop.stacks import is_own, is_runner
from .leaving import WayOut
from .port import TracingPort

STACK_ROOM = 500
"""Frames that a debugger has for itself, however close to the recursion limit the program has stopped: urwid nests a
hundred to draw PuDB, and a stop in endless recursion is one that people want to look at."""

OWN_MODULES = ("dbg_agent", "dbg_agent.*", "dbg_dial", "dbg_dial.*", "dbg_wire", "dbg_wire.*")
"""Modules that ``s`` never steps into: stepping onto a ``set_trace()`` line must not show its inside."""


class Tracing(bdb.Bdb):
    """Trace the stopped thread for one engine of the rank; breakpoints are the rank's, whichever engine set them."""

    name = ""

    def __init__(self, port: TracingPort, **options: Any) -> None:
        self._port = port
        self._stepper: int | None = None
        self._first: int | None = None
        """The frame of a stop, by its id, until the first step in it ends."""
        self.going_on = False
        self.has_let_go = False
        """The debugger was last left by :meth:`let_go`."""
        self._breaks_in = False
        """The next halt was asked for from outside, and is no step of anybody's."""
        # bdb begins with none of its own, and would take away those of the other engine.
        kept = port.breakpoints.lines
        super().__init__(**options)
        port.breakpoints.lines = kept

    @property
    def breaks(self) -> dict[str, list[int]]:
        """Return the lines with breakpoints by file, which all engines share."""
        return self._port.breakpoints.lines

    @breaks.setter
    def breaks(self, value: dict[str, list[int]]) -> None:
        self._port.breakpoints.lines = value

    def find_bottom(self, frame: FrameType) -> None:
        """Note the outermost frame; going on means for bdb to stop below it at the earliest, and everywhere if none."""
        while frame.f_back is not None:
            frame = frame.f_back
        self.botframe = frame

    def adopt_stack(self, frame: FrameType) -> Any:
        """Have all frames from this one outwards traced line by line; return the trace function for the thread."""
        walk: FrameType | None = frame
        while walk is not None:
            walk.f_trace = self.trace_dispatch
            self.botframe = walk
            if sys.version_info >= (3, 13):
                # Python 3.13's bdb restores these when it lets go of the frame.
                self.frame_trace_lines_opcodes[walk] = (walk.f_trace_lines, walk.f_trace_opcodes)
                walk.f_trace_lines = True
            walk = walk.f_back
        return self.trace_dispatch

    def leave_by(self, interaction: Callable[[], object]) -> WayOut:
        """Run the debugger's interaction; return how it was left."""
        self.going_on = self.has_let_go = False
        self._first = None
        self._breaks_in = False
        try:
            with _room_on_the_stack():
                interaction()
        except LeaveDebugger as leave:
            self.set_continue()
            leave.done()
        except MoveOn as move:
            self.move(move.wanted, move.frame)
        except SwitchDebugger:
            return WayOut.LEFT
        except Exception as error:
            # A fault of the debugger must not come out of a line of the program.
            self._port.warn(f"{self.name} failed and lets the rank go on ({type(error).__name__}: {error})")
            self.let_go()
        except BaseException:
            # The program's own, from a signal handler: it unwinds the program, which a step must not stop again.
            self.let_go()
            raise
        if not self.going_on:
            self._stepper = threading.get_ident()
        return WayOut.GO_ON if self.going_on else WayOut.STEP

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Follow the traced thread; a fault of the debugger ends the tracing, not the training."""
        try:
            follow = super().trace_dispatch(frame, event, arg)
            if event == "return" and frame.f_back is None:
                # What is left of the thread is its end, or the interpreter's, which takes our modules apart.
                sys.settrace(None)
            return self._port.debuggers.hand_over(self, frame, follow)
        except ProgramRaised as raised:
            to_raise = raised.error
        except Exception as error:
            # As above; this is called between two lines of the program.
            self._port.warn(f"the debugger failed and lets the rank go on ({type(error).__name__}: {error})")
            self.let_go()
            return None
        # Out here, so that it keeps the cause and context it came with.
        raise to_raise

    def stop_here(self, frame: FrameType) -> bool:
        """Tell whether a step ends here: bdb keeps one place for all threads, but a step belongs to one."""
        if self._stepper is not None and threading.get_ident() != self._stepper:
            return False
        if self._first is not None and self._is_beneath_ours(frame):
            return False
        if self._breaks_in and threading.current_thread() is threading.main_thread() and is_at_end(frame):
            return False
        return bool(super().stop_here(frame))

    def is_skipped_module(self, module_name: Any) -> bool:
        """Tell whether a module is ours; a program may name its own by what is no text, which bdb can't compare."""
        return isinstance(module_name, str) and bool(super().is_skipped_module(module_name))

    def _is_beneath_ours(self, frame: FrameType) -> bool:
        """Tell whether code of ours lies between this frame and the stop's.

        Tracing is on for a moment before the program goes on. What the interpreter runs in it, a callback of its
        garbage collector say or a signal handler, is nobody's next line.
        """
        walk: FrameType | None = frame
        while walk is not None and id(walk) != self._first:
            if is_own(walk) and not is_runner(walk):
                return True
            walk = walk.f_back
        return False

    def move(self, wanted: WantedMove, frame: FrameType | None) -> None:
        """Let the thread run to where this command leads from this frame."""
        command = wanted.command
        if command == "continue" or frame is None:
            self.set_continue()
        elif command == "step":
            self.set_step()
        elif command == "return":
            self.set_return(frame)
        elif command == "until":
            self.set_until(frame, wanted.line)
        else:
            self.set_next(frame)

    def go_on(self, frame: FrameType) -> None:
        """Go on from a stop at this frame that was not shown here last."""
        self.find_bottom(frame)
        self.set_continue()

    def break_in(self) -> None:
        """Stop the traced thread at its next traced line, as by a step; from any thread."""
        self._stepper = self._first = None
        self._breaks_in = True
        self._set_stopinfo(None, None)  # type: ignore[attr-defined] # what set_step does, of which it is all

    def set_continue(self) -> None:
        """Go on until a breakpoint, untraced if there is none."""
        super().set_continue()
        bottom = self.botframe
        if not self.breaks and bottom is not None and isinstance(getattr(bottom.f_trace, "__self__", None), Tracing):
            # bdb leaves that one, which is its own in a program that it runs itself, and the program's here.
            bottom.f_trace = None
        self.going_on = True
        self._stepper = self._first = None

    def set_quit(self) -> None:
        """Go on: what bdb does here is to raise in the program."""
        self.let_go()

    def let_go(self) -> None:
        """Go on without breakpoints; those there were stay known, since nobody has cleared them one by one."""
        self._port.breakpoints.look()
        self.has_let_go = True
        self.clear_all_breaks()
        self.set_continue()


@contextmanager
def _room_on_the_stack() -> Iterator[None]:
    """Have STACK_ROOM frames at least in this context, and afterwards the limit that the program has."""
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    limit = sys.getrecursionlimit()
    if limit - depth >= STACK_ROOM:
        yield
        return
    raised = depth + STACK_ROOM
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        # What was typed may have set another one on purpose.
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)
