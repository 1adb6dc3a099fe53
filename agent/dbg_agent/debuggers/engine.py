"""Base of a rank's debuggers: the tracing that PuDB and pdb share, and the methods that each implements.

PuDB and pdb derive from :class:`bdb.Bdb`. The agent's class for each derives from :class:`Engine` and then from the
debugger's own class, so that Engine's methods take precedence. One thread steps at a time, and no debugger's
fault ends the training.
"""

from __future__ import annotations

import bdb
import inspect
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.stacks import (
    OWN_PACKAGES,
    is_at_end,
    is_own,
    is_redirected,
    is_resumed_part,
    is_split,
    is_under_ours,
    is_users_file,
    outward,
    skip_runner,
)
from dbg_agent.stop.inbox import DebuggerExit, ExitDebugger, MoveThread, ProgramRaised, StepRequest, SwitchDebugger
from dbg_wire.errors import error_line

if TYPE_CHECKING:
    from dbg_agent.debuggers.workplace import Workplace

STEPS_OF_IDES = frozenset({"step over", "step in", "step out"})
"""Steps that end only at lines. pdb's own steps also stop at a function's call and at its return."""

SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Engine(bdb.Bdb):
    """A debugger of the rank, for the life of the process. All engines share the rank's breakpoints.

    All methods run in the stopped thread unless their docstring names another thread.
    """

    name = ""
    """The name that users type."""
    title = ""
    """The name in sentences."""

    def __init__(self, workplace: Workplace, **options: Any) -> None:
        self._workplace = workplace
        self._stepper: int | None = None
        self._first: int | None = None
        """The id of the stop's frame, until the first step from it ends."""
        self.going_on = False
        self.has_let_go = False
        """Whether the debugger was last left by :meth:`release`, which removes all breakpoints."""
        self.breaks_in = False
        """Whether the next halt is requested from outside and is not the end of a user's step."""
        self.ends_at_lines = False
        """Whether the present step is an IDE's: it does not end at a call or a return, but at the line that follows."""
        self._is_untraced = False
        """True during :meth:`set_continue` if no breakpoint needs tracing. ``breaks`` then hides all breakpoints,
        because bdb ends the tracing only if ``breaks`` is empty."""
        # bdb's constructor replaces the table of breakpoints, which all engines share, by an empty one. The table is
        # restored, because it may contain breakpoints that users have set in the other engine.
        kept = workplace.breakpoints.lines
        super().__init__(skip=OWN_PACKAGES, **options)
        workplace.breakpoints.lines = kept

    @property
    def breaks(self) -> dict[str, list[int]]:
        """The lines with breakpoints by file, shared by all engines."""
        return {} if self._is_untraced else self._workplace.breakpoints.lines

    @breaks.setter
    def breaks(self, value: dict[str, list[int]]) -> None:
        self._workplace.breakpoints.lines = value

    def find_bottom(self, frame: FrameType) -> None:
        """Record the outermost frame. Without it ``continue`` would stop everywhere, not only at breakpoints."""
        *_, self.botframe = outward(frame)

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the program's frames, outermost first, and the index of the frame to show first."""
        stack, index = super().get_stack(f, t)
        skipped = skip_runner([frame for frame, _ in stack])
        del stack[:skipped]
        opening = self._workplace.halt.opening
        shown = [number for number, (frame, _) in enumerate(stack) if frame is opening]
        return stack, shown[-1] if shown else max(0, index - skipped)

    def adopt_stack(self, frame: FrameType) -> Any:
        """Trace this frame and all its callers line by line; return the trace function for the thread."""
        for one in outward(frame):
            one.f_trace = self.trace_dispatch
            self.botframe = one
            if sys.version_info >= (3, 13):
                # From Python 3.13 on bdb restores both attributes from this dict when it stops tracing the frame.
                self.frame_trace_lines_opcodes[one] = (one.f_trace_lines, one.f_trace_opcodes)
                one.f_trace_lines = True
        return self.trace_dispatch

    def leave_by(self, interaction: Callable[[], object]) -> DebuggerExit:
        """Run the debugger's interaction; return how it was left."""
        self.going_on = self.has_let_go = False
        self._first = None
        self.breaks_in = self.ends_at_lines = False
        try:
            interaction()
        except ExitDebugger as leave:
            self.set_continue()
            leave.done()
        except MoveThread as move:
            self.move(move.request, move.frame)
        except SwitchDebugger:
            return DebuggerExit.SWITCH
        except Exception as error:
            # An error of the debugger must not become an exception in the program.
            self._workplace.broker.warn(f"{self.title} failed ({error_line(error)}); the rank continues")
            self.release()
        except BaseException:
            # A signal handler of the program raised this exception. It must unwind the program, and no step may halt
            # the program on the way.
            self.release()
            raise
        if not self.going_on:
            self._stepper = threading.get_ident()
        return DebuggerExit.GO_ON if self.going_on else DebuggerExit.STEP

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Follow the traced thread; a fault of the debugger ends the tracing, not the training."""
        try:
            follow = super().trace_dispatch(frame, event, arg)
            if event == "return" and frame.f_back is None:
                # The program's code in this thread has ended. Tracing must end before the interpreter does, because the
                # agent's modules are torn down then.
                sys.settrace(None)
            return self._workplace.tracing.hand_over(self, frame, follow)
        except ProgramRaised as raised:
            to_raise = raised.error
        except RecursionError:
            # Close to the recursion limit no debugger can stop, but the program may return from there.
            return self.trace_dispatch
        except Exception as error:
            # An error of the debugger must not become an exception in the program.
            self._workplace.broker.warn(f"the debugger failed ({error_line(error)}); the rank continues")
            self.release()
            return None
        # The exception is raised outside of the except block, so that it keeps its own cause and context.
        raise to_raise

    def dispatch_call(self, frame: FrameType, arg: Any) -> Any:
        """Follow a call; a step that ends at lines continues to the first line of the function."""
        if (self.ends_at_lines or is_resumed_part(frame)) and self.stop_here(frame):
            return self.trace_dispatch
        return super().dispatch_call(frame, arg)

    def dispatch_return(self, frame: FrameType, arg: Any) -> Any:
        """Follow a return; a step that ends at lines continues to the caller's next line."""
        # A yield or an await arrives here as a return, too. The frame will be resumed, so bdb's own method handles it.
        is_suspended = self.stopframe is not None and bool(frame.f_code.co_flags & SUSPENDING)
        if self.ends_at_lines and not is_suspended and self.stop_here(frame) and self._to_caller(frame):
            return self.trace_dispatch
        return super().dispatch_return(frame, arg)

    def _to_caller(self, frame: FrameType) -> bool:
        """Make the thread stop at the next line of this frame's caller; return False if there is none."""
        caller = frame.f_back
        if caller is None or is_own(caller):
            return False
        if caller.f_trace is None:
            # The caller is not traced, because bdb was continuing to a breakpoint when the thread entered it.
            caller.f_trace = self.trace_dispatch
        self.set_next(caller)
        return True

    def stop_here(self, frame: FrameType) -> bool:
        """Return True if a step ends here. bdb keeps one step for all threads, but a step belongs to one thread."""
        if self._stepper is not None and threading.get_ident() != self._stepper:
            return False
        # Tracing is already on shortly before the program continues. During that time the interpreter may run a
        # callback of its garbage collector or a signal handler, and the user's step must not end there. A break-in
        # sends a signal, and a step may be traced while the agent's handler of this signal runs. The handler calls
        # functions of the standard library, and the step must not end in these functions.
        if (self._first is not None or self.breaks_in) and is_under_ours(frame, until=self._first):
            return False
        if self.breaks_in and threading.current_thread() is threading.main_thread() and is_at_end(frame):
            return False
        caller = frame.f_back
        if not super().stop_here(frame):
            return caller is not None and caller is self.stopframe and is_resumed_part(frame)
        if caller is None:
            return True
        is_inner = is_resumed_part(frame) or is_users_file(frame.f_code.co_filename)
        if is_redirected(frame) or (is_split(caller) and not is_inner):
            # After a call of a stock debugger's `set_trace()`, whose code the agent has replaced, the step ends in the
            # caller. If torch.compile has split the caller, a separate function runs the caller's remaining lines, and
            # the step ends in that function.
            self.set_next(caller)
            return False
        return True

    def is_skipped_module(self, module_name: Any) -> bool:
        """Return True for modules of the agent, because a step on a ``set_trace()`` line must not enter the call.

        bdb's own patterns are slower on each traced line. They also fail if a program's ``__name__`` is not a string.
        """
        return isinstance(module_name, str) and module_name.partition(".")[0] in OWN_PACKAGES

    def break_here(self, frame: FrameType) -> bool:
        """Return True if a breakpoint stops the frame at its line."""
        file = self.canonic(frame.f_code.co_filename)
        line = frame.f_lineno
        if line not in self.breaks.get(file, ()):
            return bool(super().break_here(frame))
        are_extended, chosen = self._workplace.breakpoints.chosen_at(frame, file, line)
        if not are_extended:
            return bool(super().break_here(frame))
        if chosen is None:
            return False
        self.currentbp = chosen.number
        if chosen.temporary:
            self.do_clear(str(chosen.number))
        return True

    def move(self, request: StepRequest, frame: FrameType | None) -> None:
        """Set where the thread stops next: ``request`` is the command, ``frame`` the frame in which it was typed."""
        command = request.command
        self.ends_at_lines = command in STEPS_OF_IDES
        if command == "continue" or frame is None:
            self.set_continue()
        elif command in ("step", "step in"):
            self.set_step()
        elif command == "step out":
            if not self._to_caller(frame):
                self.set_return(frame)
        elif command == "return":
            self.set_return(frame)
        elif command == "until":
            self.set_until(frame, request.line)
        else:
            self.set_next(frame)

    def go_on(self, frame: FrameType) -> None:
        """Resume from a stop at this frame that another debugger has shown."""
        self.find_bottom(frame)
        self.set_continue()

    def break_in(self) -> None:
        """Stop the traced thread at its next traced line, like a step; may be called from any thread."""
        self._stepper = self._first = None
        self.breaks_in = True
        self._set_stopinfo(None, None)  # type: ignore[attr-defined] # set_step does only this

    def set_continue(self) -> None:
        """Continue until a breakpoint, untraced if there is none."""
        is_traced = self._workplace.breakpoints.are_traced
        self._is_untraced = not is_traced
        try:
            super().set_continue()
        finally:
            self._is_untraced = False
        bottom = self.botframe
        if not is_traced and bottom is not None and isinstance(getattr(bottom.f_trace, "__self__", None), Engine):
            # bdb leaves the outermost frame traced, because in a program that bdb runs itself this frame is bdb's own.
            bottom.f_trace = None
        self.going_on = True
        self._stepper = self._first = None

    def set_quit(self) -> None:
        """Continue instead of quitting; bdb itself would raise an exception in the program."""
        self.release()

    def release(self) -> None:
        """Clear all breakpoints, and continue.

        The rank reports at once the changes that a user has made to breakpoints. No user has made the change here, so
        the rank does not report at once that it has no breakpoints now.
        """
        self._workplace.breakpoints.update()
        self.has_let_go = True
        self.clear_all_breaks()
        self.set_continue()

    # ------------------------------------------------------------------------------------- implemented by each debugger

    def interact(self, frame: FrameType, traced: bool) -> DebuggerExit:
        """Show the debugger at this frame until it is left.

        ``traced`` is True if the trace function of another engine stopped the thread at this frame, and False if no
        trace function did.
        """
        raise NotImplementedError

    def show_crash(self, error: BaseException) -> DebuggerExit:
        """Show the debugger where this exception was raised, until it is left; the thread can't move from there."""
        raise NotImplementedError

    def select(self, frame: FrameType) -> None:
        """Show another frame of the stop."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw all of the screen at the next interaction: a terminal of a new session starts with an empty screen."""
        raise NotImplementedError

    def show_breakpoints(self) -> None:
        """Draw the present breakpoints; a debugger that lists them only on request does nothing."""

    def note(self, text: str) -> None:
        """Show a sentence as soon as the debugger is shown."""
        raise NotImplementedError

    def ignores(self, _frame: FrameType) -> bool:
        """Return True if the user has switched off the stop at this place."""
        return False

    def screen(self) -> tuple[str, ...]:
        """Return the last output, one string per row; may be called from any thread."""
        raise NotImplementedError

    def complete_line(self, _line: str, _start: int, _end: int) -> tuple[str, ...]:
        """Return completions of the line at the prompt; a debugger with its own screen returns none."""
        return ()

    @property
    def is_working(self) -> bool:
        """Whether a command runs that :meth:`interrupt` would end; may be read from any thread."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """Interrupt the running command, if any; may be called from any thread."""
        raise NotImplementedError
