"""A pdb that runs one line of commands at a stop, as part of a set of ranks, beside the debugger that is open.

A line has the same effect as in a session, or is refused before any command of it runs. Commands that move the thread
don't run here. They are returned, and the open debugger carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.debuggers.pdb import RankPdb, is_block
from dbg_agent.frames.capture import Capture
from dbg_agent.frames.variables import write_back
from dbg_agent.questions.evaluate import Evaluated, interrupted, printed_only, raised
from dbg_agent.stop.inbox import MOVES, WantedMove
from dbg_agent.stop.stops import NOTHING_MOVES
from dbg_wire.messages import Kind

if TYPE_CHECKING:
    from dbg_agent.debuggers.debuggers import Debuggers
    from dbg_agent.debuggers.engine import Workplace
    from dbg_wire.messages import Ask

RUN = frozenset(
    {
        *("a", "args", "b", "break", "bt", "cl", "clear", "condition", "disable", "enable", "h", "help", "ignore"),
        *("l", "list", "ll", "longlist", "p", "pp", "retval", "rv", "source", "tbreak", "w", "whatis", "where"),
    }
)
"""Commands that need only a frame, and that print or change what belongs to the rank, not to one debugger."""

SELECTIONS = frozenset({"u", "up", "d", "down"})
"""Commands that choose a frame for the rest of their line. The next line begins at the open debugger's frame again."""

TERMINAL = frozenset(
    {
        *("q", "quit", "exit", "EOF", "interact", "debug", "commands", "run", "restart", "display", "undisplay"),
        *("alias", "unalias", "exceptions", "j", "jump"),
    }
)
"""Commands that ask, or that change only the debugger that runs them: a passing pdb ends with its line."""

ASK_WITHOUT_NUMBERS = frozenset({"cl", "clear"})


class NotHere(Exception):
    """A command that a passing pdb refuses; the text says why."""


def run_command(
    debuggers: Debuggers, ask: Ask, frame: FrameType, looked_at: FrameType | None
) -> Evaluated | tuple[WantedMove, str]:
    """Run a line of commands at ``frame`` in a pdb of its own, without a session; return what it printed.

    The open debugger shows the frame ``looked_at``, if that is another one.

    If the line ends in a move, return the move and what was printed before.
    """
    printed, workplace = Capture(), debuggers.workplace
    known_locals = debuggers.locals_of(looked_at or frame)
    assigned = dict(known_locals or {})
    try:
        passing = PassingPdb(workplace, printed, looked_at or frame, frame, debuggers.aliases)
        if known_locals is not None:
            # The new pdb has read the frame's variables, and so undone what was assigned in the open one.
            known_locals.update(assigned)
        wanted = passing.run_line(ask.text)
        if workplace.breakpoints.lines:
            # A breakpoint needs a debugger that traces for it when the rank goes on.
            debuggers.have_one()
    except KeyboardInterrupt:
        return interrupted(ask)
    except NotHere as error:
        return Evaluated(Kind.ERROR, str(error))
    except BaseException as error:
        return raised(error)
    return printed_only(printed) if wanted is None else (wanted, printed.text)


class PassingPdb(RankPdb):
    """A pdb for one line at one frame. It prints into a capture, and notes moves instead of making them."""

    may_await = False

    def __init__(
        self, workplace: Workplace, printed: Capture, looked_at: FrameType, frame: FrameType, aliases: Mapping[str, str]
    ) -> None:
        """Begin at ``frame``, while the open debugger shows the frame ``looked_at``."""
        super().__init__(workplace, printed)  # type: ignore[arg-type] # all of a console that a command needs
        self.wanted: WantedMove | None = None
        self.reset()
        stop = workplace.halt
        innermost = stop.frame or frame
        self.find_bottom(innermost)
        if stop.crash is not None:
            # Only the traceback knows the lines at which the exception left the frames.
            self.setup(None, stop.crash.error.__traceback__)
        else:
            self.setup(innermost, None)
        self.choose(frame)
        self._begun_at = looked_at
        self.aliases = dict(aliases)

    def run_line(self, text: str) -> WantedMove | None:
        """Run a line of commands and return the move that it asks for.

        Raise NotHere before any command runs if one of them is refused.
        """
        commands = self._commands_of(text)
        self._check(commands)
        begun_at, begun_locals = self.curframe, self.namespaces()[1]
        for command in commands:
            self.onecmd(with_rank(command, self._workplace.broker.number))
        if begun_at is not None:
            write_back(begun_at, begun_locals)
        if self.curframe is not None and self.curframe is not begun_at:
            write_back(self.curframe, self.namespaces()[1])
        self.forget()
        return self.wanted

    def _commands_of(self, text: str) -> list[str]:
        """Return the commands of a line, with aliases replaced and split at ``;;``."""
        commands: list[str] = []
        self.cmdqueue = [text.strip()]
        while self.cmdqueue:
            commands.append(self.precmd(self.cmdqueue.pop(0)))
        return commands

    def _check(self, commands: list[str]) -> None:
        """Raise NotHere if a command would not have the effect that it has in a session."""
        words = [self._word_of(command) for command in commands]
        for number, (word, command) in enumerate(zip(words, commands, strict=True)):
            is_last = number == len(words) - 1
            if not command.strip():
                raise NotHere("an empty command repeats the last one, which only a terminal has; attach to the rank")
            if word is None or word in RUN:
                if word in ASK_WITHOUT_NUMBERS and command.strip() == word:
                    raise NotHere(f"`{word}` alone asks; name the breakpoints, or attach to the rank")
            elif word in MOVES:
                if not is_last:
                    raise NotHere(f"nothing can follow `{word}` in one line; give what is to follow by itself")
                self._check_crash(word)
            elif word in SELECTIONS:
                if is_last:
                    raise NotHere(f"`{word}` holds for one line; put what is to be done there behind it: `{word};;p x`")
            else:
                raise NotHere(f"`{word}` is for a terminal; attach to the rank")

    def _check_crash(self, word: str) -> None:
        if self._workplace.halt.crash is not None and not word.startswith("c"):
            raise NotHere(NOTHING_MOVES)

    def _word_of(self, command: str) -> str | None:
        """Return the name of pdb's command; None for a statement."""
        if is_block(command):
            return None
        word = self.parseline(command)[0]
        return word if word and hasattr(self, f"do_{word}") else None

    # ------------------------------------------------------------------------------------------------------ the moves

    def _want(self, command: str, line: int | None = None) -> None:
        frame = self.curframe
        self.wanted = WantedMove(command, line, frame if frame is not self._begun_at else None)

    def set_next(self, frame: FrameType) -> None:
        """Note the move."""
        self._want("next")

    def set_step(self) -> None:
        """Note the move."""
        self._want("step")

    def set_return(self, frame: FrameType) -> None:
        """Note the move."""
        self._want("return")

    def set_until(self, frame: FrameType, lineno: int | None = None) -> None:
        """Note the move."""
        self._want("until", lineno)

    def set_continue(self) -> None:
        """Note the move."""
        self._want("continue")


def with_rank(command: str, rank: int) -> str:
    """Return the command with ``rank`` in a breakpoint's condition replaced by the rank's number.

    A condition that binds ``rank`` itself, as in ``any(rank == 2 for rank in ranks)``, is left as it is.
    """
    import ast

    word, _, rest = command.strip().partition(" ")
    place, comma, condition = rest.partition(",")
    if word not in ("b", "break", "tbreak") or not comma:
        return command

    class WithRank(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> Any:
            return ast.Constant(rank) if node.id == "rank" else node

    try:
        tree = ast.parse(condition.strip(), mode="eval")
    except SyntaxError:
        return command
    for node in ast.walk(tree):
        is_name = isinstance(node, ast.Name) and node.id == "rank" and not isinstance(node.ctx, ast.Load)
        if is_name or (isinstance(node, ast.arg) and node.arg == "rank"):
            return command
    return f"{word} {place}, {ast.unparse(WithRank().visit(tree))}"
