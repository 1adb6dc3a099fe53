"""A separate pdb that runs one command at a stop, if a terminal has sent the command to a set of ranks.

A command has the same effect as in the open debugger, or is rejected. Commands that move the thread don't run here.
They are returned, and the open debugger runs them.
"""

from __future__ import annotations

from types import FrameType

from dbg_agent.debuggers.debuggers import Debuggers
from dbg_agent.debuggers.pdb import RankPdb, is_block
from dbg_agent.debuggers.workplace import Workplace
from dbg_agent.frames.capture import Capture
from dbg_agent.frames.variables import write_back
from dbg_agent.questions.evaluate import Evaluated, interrupted, printed_only, raised
from dbg_agent.stop.inbox import MOVES, StepRequest
from dbg_agent.stop.stops import CRASHED_CANT_MOVE
from dbg_wire.messages import Ask, Kind
from dbg_wire.records.inspection import BreakpointChanges

RUN = frozenset(
    {
        *("a", "args", "b", "break", "bt", "cl", "clear", "condition", "disable", "enable", "h", "help", "ignore"),
        *("l", "list", "ll", "longlist", "p", "pp", "retval", "rv", "source", "tbreak", "w", "whatis", "where"),
    }
)
"""Commands that need only a frame, and that print or change state of the rank, not of one debugger."""

ASK_WITHOUT_NUMBERS = frozenset({"cl", "clear"})


class CommandNotAllowed(Exception):
    """Raised when this separate pdb rejects a command; the text is the reason."""


def run_command(
    debuggers: Debuggers, ask: Ask, frame: FrameType, looked_at: FrameType | None
) -> Evaluated | tuple[StepRequest, str]:
    """Run one command at ``frame`` in a separate pdb, without a session; return the command's output.

    The open debugger may show another frame, ``looked_at``. If the command is a move, return the move and the text
    printed before it.
    """
    printed, workplace = Capture(), debuggers.workplace
    looked_at = looked_at or frame
    known_locals = debuggers.locals_of(looked_at)
    assigned = dict(known_locals or {})
    try:
        passing = OneShotPdb(workplace, printed, looked_at, frame)
        if known_locals is not None:
            # The new pdb has read the frame's variables. The read has undone assignments in the open debugger, so the
            # assignments are made again.
            known_locals.update(assigned)
        request = passing.run_line(ask.text.strip())
        if workplace.breakpoints.lines:
            # This call creates the object that serves the breakpoints. Without that object bdb would evaluate their
            # conditions, and bdb does not know the name `rank`, which conditions may use.
            workplace.breakpoints.apply(BreakpointChanges())
            # A breakpoint needs a debugger that traces for it when the rank continues.
            debuggers.have_one()
    except KeyboardInterrupt:
        return interrupted(ask)
    except CommandNotAllowed as error:
        return Evaluated(Kind.ERROR, str(error))
    except BaseException as error:
        return raised(error)
    return printed_only(printed) if request is None else (request, printed.text)


class OneShotPdb(RankPdb):
    """A pdb for one command at one frame. It prints into a capture, and records moves instead of making them."""

    may_await = False

    def __init__(self, workplace: Workplace, printed: Capture, looked_at: FrameType, frame: FrameType) -> None:
        """Start at ``frame``, while the open debugger shows the frame ``looked_at``."""
        super().__init__(workplace, printed)  # type: ignore[arg-type] # commands need no more of a console
        self.request: StepRequest | None = None
        self.reset()
        innermost, crash = workplace.halt.frame or frame, workplace.halt.crash
        self.find_bottom(innermost)
        if crash is not None:
            # Only the traceback has the lines where the exception left the frames.
            self.setup(None, crash.error.__traceback__)
        else:
            self.setup(innermost, None)
        self.choose(frame)
        self._begun_at = looked_at

    def run_line(self, command: str) -> StepRequest | None:
        """Run a command and return the move that it requests; raise CommandNotAllowed if it is rejected."""
        self._check(command)
        begun_at, begun_locals = self.curframe, self.namespaces()[1]
        self.onecmd(command)
        if begun_at is not None:
            write_back(begun_at, begun_locals)
        self.forget()
        return self.request

    def _check(self, command: str) -> None:
        """Raise CommandNotAllowed if a command would not have the same effect as in a session."""
        word = None if is_block(command) else self.parseline(command)[0]
        if not command:
            raise CommandNotAllowed(
                "an empty command would repeat the previous one, which ranks have only in a terminal"
            )
        if ";;" in command and not is_block(command):
            raise CommandNotAllowed("a set of ranks runs one command at a time; enter each command separately")
        if word in MOVES and self._workplace.halt.crash is not None and not str(word).startswith("c"):
            raise CommandNotAllowed(CRASHED_CANT_MOVE)
        if word in ASK_WITHOUT_NUMBERS and command == word:
            raise CommandNotAllowed(f"`{word}` without numbers asks for confirmation; add the breakpoints' numbers")
        if word and hasattr(self, f"do_{word}") and word not in RUN and word not in MOVES:
            raise CommandNotAllowed(f"`{word}` works only in a terminal; attach to the rank")

    # ---------------------------------------------------------------------------------------------------------- moves

    def _want(self, command: str, line: int | None = None) -> None:
        frame = self.curframe
        self.request = StepRequest(command, line, frame if frame is not self._begun_at else None)

    def set_next(self, frame: FrameType) -> None:
        """Record the move."""
        self._want("next")

    def set_step(self) -> None:
        """Record the move."""
        self._want("step")

    def set_return(self, frame: FrameType) -> None:
        """Record the move."""
        self._want("return")

    def set_until(self, frame: FrameType, lineno: int | None = None) -> None:
        """Record the move."""
        self._want("until", lineno)

    def set_continue(self) -> None:
        """Record the move."""
        self._want("continue")
