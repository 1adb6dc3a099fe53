"""pdb as a view of a stop: the rank's own pdb, with prompts as messages instead of a terminal.

Python 3.14 differs: its ``Pdb`` asks for confirmation by ``_prompt_for_confirmation``, has the arguments ``mode`` and
``backend``, and prints in colours on a terminal. Here ``Console`` is not a terminal, ``mode`` keeps its default, and
the questions are asked on the console like any ``input()``.
"""

from __future__ import annotations

import ast
import cmd
import code
import codeop
import pdb
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.debuggers.console import UNWINDING, Console
from dbg_agent.debuggers.engine import Engine
from dbg_agent.frames.capture import redirected
from dbg_agent.frames.stacks import is_split
from dbg_agent.frames.variables import WRITES_THROUGH
from dbg_agent.stop.inbox import MOVES, BreakPrompt, DebuggerExit
from dbg_wire.limits import COMPLETION_SECONDS, MAX_COMPLETIONS
from dbg_wire.messages import PromptState
from dbg_wire.records.ranks import PDB

if TYPE_CHECKING:
    from dbg_agent.debuggers.workplace import Workplace

SCREEN_LINES = 24
"""Number of lines at the end of the log that are shown as the screen of a line debugger."""

END_OF_INPUT = "EOF"
"""The line that Ctrl-D sends."""


@contextmanager
def _waiting_for(console: Console, state: PromptState) -> Iterator[None]:
    """While the block runs, report each prompt with ``state``: the kind of input that the prompt waits for."""
    before, console.state = console.state, state
    try:
        yield
    finally:
        console.state = before


class Interpreter(code.InteractiveConsole):
    """An interpreter that uses the terminal instead of the process's own stdin and stderr."""

    def __init__(self, console: Console, namespace: dict[str, Any]) -> None:
        super().__init__(namespace, filename="<stdin>")
        self._console = console
        self._left = False

    def write(self, data: str) -> None:
        """Show the text of an error."""
        self._console.write(data)

    def runcode(self, code: CodeType) -> None:
        """Run a statement; ``exit()`` ends the interpreter, not the rank."""
        try:
            super().runcode(code)
        except SystemExit:
            self._left = True

    def raw_input(self, prompt: str = "") -> str:
        """Ask for a line; ``EOF``, which Ctrl-D sends, ends the interpreter."""
        if self._left:
            raise EOFError
        self._console.write(prompt)
        with _waiting_for(self._console, PromptState.INTERACT):
            line = self._console.readline()
        # A command that was not typed at a terminal has no input: it reads an empty string.
        if line in ("", "EOF\n"):
            raise EOFError
        return line.rstrip("\n")


INTERACT_BANNERS = (
    ("*interactive*", "*back at the debugger*")
    if sys.version_info < (3, 13)
    else ("*pdb interact start*", "*exit from pdb interact command*")
)
"""The lines that ``interact`` prints at its start and end. Before Python 3.13 pdb itself printed no line at the end."""


def build(workplace: Workplace, *, readrc: bool = False) -> RankPdb:
    """Make the rank's pdb; it reads the ``.pdbrc`` files of the rank's host if ``readrc`` is set."""
    return RankPdb(workplace, workplace.console, readrc=readrc)


class QuitDeclined(KeyboardInterrupt):
    """Raised if a breakpoint's commands contain `q` and the user, asked how to leave, chooses to stay.

    The exception ends these commands, as Ctrl-C does. pdb itself would resume the program.
    """


def is_block(text: str) -> bool:
    """Return True if several lines were typed at once; a newline at the end, as in a file, is ignored."""
    return "\n" in text.strip("\n")


def _has_await(source: str) -> bool:
    """Return True if the only error in this code is an ``await`` outside of a function."""
    try:
        compile(source, "<stdin>", "exec")
    except SyntaxError as error:
        return error.msg == "'await' outside function"
    return False


class CompletingPdb(Engine, pdb.Pdb):
    """A pdb that completes as on its own terminal, but runs no code that could block the rank."""

    ticket: int | None = None
    """The number by which :meth:`interrupt` names the running command; None if no command runs."""

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Make the command that runs in this block interruptible: ``ticket`` is set while the block runs."""
        before = self.ticket
        with self._workplace.interruptible.running() as ticket:
            self.ticket = ticket
            try:
                yield
            finally:
                self.ticket = before

    def namespaces(self) -> tuple[dict[str, Any], Any]:
        """Return globals and locals of the current frame."""
        frame = self.curframe
        if frame is None:
            return {}, {}
        # pdb keeps the locals, because before Python 3.13 a new read of f_locals undoes assignments.
        return frame.f_globals, frame.f_locals if WRITES_THROUGH else self.curframe_locals

    def complete_line(self, line: str, start: int, end: int) -> tuple[str, ...]:
        """Return the completions that pdb would offer on its own terminal, or none if that takes too long.

        Completion reads attributes, and so may run any code of the program. In the main thread, code that takes too
        long is interrupted. Another thread can't be interrupted while it sleeps, so no attribute is read there. A
        prompt inside a command offers no completion, because the interrupt might hit the command.
        """
        looks_inside = "." in line[start:end] and threading.current_thread() is not threading.main_thread()
        if self.ticket is not None or looks_inside:
            return ()
        interruptible = self._workplace.interruptible
        try:
            with interruptible.running() as ticket:
                self._workplace.broker.call_later(COMPLETION_SECONDS, partial(interruptible.interrupt, ticket))
                matches = self._completer(line, start)(line[start:end], line, start, end)
        except BaseException:
            return ()
        return tuple(sorted({match for match in matches or () if isinstance(match, str)}))[:MAX_COMPLETIONS]

    def _completer(self, line: str, start: int) -> Callable[..., Any]:
        if start == 0:
            return self._complete_first_word
        command = self.parseline(line)[0]
        if command is None or not hasattr(self, f"do_{command}"):
            # The line is an expression or a statement, which only some releases of pdb complete by themselves.
            expression: Callable[..., Any] = self._complete_expression
            return expression
        default: Callable[..., Any] = self.completedefault
        return getattr(self, f"complete_{command}", default)

    def _complete_first_word(self, text: str, line: str, start: int, end: int) -> list[str]:
        """Complete a command or an expression; complete only commands on an empty line."""
        mark = "!" if text.startswith("!") else ""
        commands = [] if mark else cmd.Cmd.completenames(self, text, line, start, end)
        aliases = [] if mark else [alias for alias in self.aliases if alias.startswith(text)]
        if not text:
            return [*commands, *aliases]
        found = self._complete_expression(text[len(mark) :], line, start, end)
        return [*commands, *aliases, *(f"{mark}{name}" for name in found)]


class RankPdb(CompletingPdb):
    """All of pdb except commands that would end the rank or use the rank's own terminal."""

    name = title = PDB

    def __init__(self, workplace: Workplace, console: Console, *, readrc: bool = False) -> None:
        # Another backend, which the program may have set as pdb's default, would not trace as the other engines do.
        backend = {"backend": "settrace"} if sys.version_info >= (3, 14) else {}
        super().__init__(workplace, stdin=console, stdout=console, nosigint=True, readrc=readrc, **backend)
        self._console = console
        self._runs_commands = False
        """Whether a command of a breakpoint runs, not one that was typed at a prompt."""

    # ----------------------------------------------------------------------------------------------- stops made by bdb

    def interact(self, frame: FrameType, traced: bool) -> DebuggerExit:
        """Show pdb at this frame if a trace function stopped here; else at the next line, like pdb's ``set_trace``."""
        if traced or is_split(frame):
            return self._show(frame)
        self._start(frame)
        return DebuggerExit.STEP

    def _start(self, frame: FrameType) -> None:
        """Prepare tracing of this frame, so that pdb then stops at the same place as its own ``set_trace``."""
        self._first = id(frame)
        super().set_trace(frame)
        # Switch off the tracing that `set_trace` has switched on: otherwise a step would end in the agent's own calls
        # that follow. The caller switches tracing on again as its last action.
        sys.settrace(None)
        self.going_on = False
        self._stepper = threading.get_ident()

    def _show(self, frame: FrameType) -> DebuggerExit:
        """Show pdb at this frame until it is left."""
        self.reset()
        self.find_bottom(frame)
        return self.leave_by(partial(self.interaction, frame, None))

    def show_crash(self, error: BaseException) -> DebuggerExit:
        """Show the place where an exception was raised."""
        self.reset()
        # From 3.13 on pdb accepts the exception itself, and can then show its causes, too.
        shown: Any = error if sys.version_info >= (3, 13) else error.__traceback__
        return self.leave_by(partial(self.interaction, None, shown))

    def select(self, frame: FrameType) -> None:
        """Make this frame of the stack the current one, and show it."""
        self.choose(frame)
        self.print_stack_entry(self.stack[self.curindex])

    def choose(self, frame: FrameType) -> None:
        """Make this frame of the stack the current one."""
        for number, (known, _) in enumerate(self.stack):
            if known is frame:
                self.curindex, self.curframe = number, known
                if sys.version_info < (3, 14):
                    self.curframe_locals = known.f_locals
                self.lineno = None

    def redraw(self) -> None:
        """Begin a new log."""
        self._console.start()

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.write(f"*** {text}\n")

    def screen(self) -> tuple[str, ...]:
        """Return the last lines of the log."""
        return self._console.last_lines(SCREEN_LINES)

    @property
    def is_working(self) -> bool:
        """Whether a command runs and does not wait for input."""
        return self._console.prompt is None and self.ticket is not None

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the command that runs or asks for input; do nothing at pdb's own prompt."""
        if self._console.interrupt():
            # The console has recorded the interrupt. A command with a ticket is running and is interrupted here. A
            # command without a ticket has not started; `onecmd` reads the record when the command starts.
            if self.ticket is not None and self._console.consume_interrupt():
                self._workplace.interruptible.interrupt(self.ticket)
            return
        prompt = self._console.prompt
        if prompt is not None and prompt.state is not PromptState.COMMAND:
            self._workplace.inbox.put(self._workplace.stops.number, BreakPrompt(prompt.number))

    def user_call(self, frame: FrameType, argument_list: Any) -> None:
        """Stop at a call if a step ends there; bdb calls this for many other calls, too."""
        if self.stop_here(frame):
            self._halts(frame, partial(super().user_call, frame, argument_list))

    def user_line(self, frame: FrameType) -> None:
        """Stop at a line."""
        self._halts(frame, partial(super().user_line, frame), resumes=self._resumes())

    user_opcode = user_line
    """From Python 3.13 on, bdb stops at the next instruction after a ``set_trace()``, not at the next line. For that
    stop bdb calls this method instead of ``user_line``."""

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        """Stop at a return."""
        self._halts(frame, partial(super().user_return, frame, return_value))

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        """Stop at an exception."""
        self._halts(frame, partial(super().user_exception, frame, exc_info))

    def _resumes(self) -> bool:
        """Return True if the last command of the present breakpoint resumes the program."""
        commands = getattr(self, "commands", {}).get(getattr(self, "currentbp", 0)) or [""]
        return MOVES.get(commands[-1].strip()) == "continue"

    def bp_commands(self, frame: FrameType) -> Any:
        """Run the commands of the present breakpoint; Ctrl-C and a declined `q` end them and lead to a prompt."""
        before, self._runs_commands = self.lastcmd, True
        try:
            return super().bp_commands(frame)
        except KeyboardInterrupt as interrupt:
            if not isinstance(interrupt, QuitDeclined):
                self.message("--KeyboardInterrupt--")
            self.lastcmd, self.going_on = before, False
            return True
        finally:
            self._runs_commands = False

    def _halts(self, frame: FrameType, interact: Callable[[], None], *, resumes: bool = False) -> None:
        self._workplace.thread.traced_thread_halts(PDB, frame, partial(self.leave_by, interact), resumes=resumes)

    # ---------------------------------------------------------------------------------------------------- own commands

    def onecmd(self, line: str) -> bool:
        """Run a command that can be interrupted, with this thread's ``print`` and ``input`` at the terminal."""
        with redirected(self._console), _waiting_for(self._console, PromptState.INPUT), self.interruptible():
            if self._console.consume_interrupt():
                raise KeyboardInterrupt
            if line == END_OF_INPUT and getattr(self, "commands_defining", False):
                # Ctrl-D ends the list of a breakpoint's commands and is not a command itself.
                line = "end"
            if is_block(line) and not getattr(self, "commands_defining", False):
                # Several lines at once are Python, even if the first begins like a command.
                self.default(line)
                return False
            self._console.unwinding = None
            stop = bool(self._showing_errors(partial(super().onecmd, line)))
            if self._console.unwinding is not None:
                # pdb has caught this exception as an error of the expression, but it is meant to end the debugger.
                raise self._console.unwinding
            return stop

    def parseline(self, line: str) -> tuple[str | None, str | None, str]:
        """Parse a line; ``exit()`` and ``quit()`` are commands, as in pdb before 3.13."""
        command, arg, line = super().parseline(line)
        return (command[:-2] if command in ("exit()", "quit()") else command), arg, line

    def _showing_errors(self, part: Callable[[], Any]) -> Any:
        """Run a part of pdb. If an argument's repr or a file makes the part fail, show the error and continue."""
        try:
            return part()
        except (KeyboardInterrupt, *UNWINDING):
            raise
        except BaseException:
            self._error_exc()
            return None

    def _error_exc(self) -> None:
        """Show the present exception, or only its type if its text fails."""
        kind = sys.exc_info()[0] or BaseException
        try:
            super()._error_exc()  # type: ignore[misc] # in all releases, but not in their stubs
        except Exception:
            self.error(kind.__name__)

    def preloop(self) -> None:
        """Show the values that pdb displays at each prompt."""
        self._showing_errors(super().preloop)

    def print_stack_entry(self, *where: Any, **options: Any) -> None:
        """Show a frame and its line."""
        self._showing_errors(partial(super().print_stack_entry, *where, **options))

    @property
    def may_await(self) -> bool:
        """Whether the user may type ``await …``: the program awaits it only at a stop of ``pdb.set_trace_async``."""
        return self._workplace.halt.awaits_in == threading.get_ident()

    def default(self, line: str) -> bool:  # type: ignore[override] # Cmd returns it, too
        """Execute a statement or a block in the current frame; return True if the program must await it."""
        source = line[1:].strip() if line[:1] == "!" else line
        try:
            # Several lines at once are a complete block; a single line may be the start of a block.
            if "\n" not in source and not self._is_complete(source + "\n"):
                try:
                    source = self._rest_of(source)
                except KeyboardInterrupt:
                    self.message("--KeyboardInterrupt--")
                    return False
                self.lastcmd = source
            if self.may_await and _has_await(source):
                return self._await(source)
            self._execute(source, whole="\n" not in line)
        except UNWINDING:
            raise
        except BaseException:
            # The typed code raised this, for example by `sys.exit()`, and it must not reach the program.
            self._error_exc()
        return False

    def _await(self, source: str) -> bool:
        """Resume the program, which awaits the expression and then stops here again."""
        self._exec_await(source, *self.namespaces())  # type: ignore[attr-defined] # pdb's own, from Python 3.14 on
        self._workplace.halt.awaitable = getattr(self, "async_awaitable", None)
        self._set_stopinfo(self.botframe, None, -1)  # type: ignore[attr-defined]
        return True

    def _is_complete(self, source: str) -> bool:
        return (self.may_await and _has_await(source)) or codeop.compile_command(
            source, "<stdin>", "single"
        ) is not None

    def _rest_of(self, source: str) -> str:
        """Ask for lines until the statement is complete; an empty line completes a compound statement."""
        while not self._is_complete(source):
            self._console.write("...   ")
            with _waiting_for(self._console, PromptState.MORE):
                line = self._console.readline()
            if not line:
                # The input has ended, so the compiler reports what is missing.
                return source
            source += "\n" + ("" if line.isspace() else line.rstrip("\n"))
        return source

    def _execute(self, source: str, *, whole: bool) -> None:
        namespace, frame_locals = self.namespaces()
        before = sys.displayhook
        sys.displayhook = self.displayhook
        body = ast.parse(source).body
        try:
            # Statements on one line are executed together, because a `global` applies to all of them. The statements of
            # a block of several lines run one by one, as if typed at a prompt, so that the values of all expressions
            # are shown.
            for statements in [body] if whole else [[statement] for statement in body]:
                self._execute_one(ast.Interactive(statements), namespace, frame_locals)
        finally:
            sys.displayhook = before

    def _execute_one(self, typed: ast.Interactive, namespace: dict[str, Any], frame_locals: Any) -> None:
        # From 3.13 on pdb can run a statement whose inner functions see the frame's locals.
        in_closure = getattr(self, "_exec_in_closure", None)
        if in_closure is not None and in_closure(ast.unparse(ast.Module(typed.body, [])), namespace, frame_locals):
            return
        exec(compile(typed, "<stdin>", "single"), namespace, frame_locals)  # noqa: S102 - typed by the user

    def do_interact(self, _arg: str) -> None:
        """interact

        Start an interactive interpreter whose global namespace
        contains all the (global and local) names found in the current scope.
        """
        namespace, frame_locals = self.namespaces()
        interpreter = Interpreter(self._console, {**namespace, **frame_locals})
        start, end = INTERACT_BANNERS
        before = vars(sys).keys() & {"ps1", "ps2"}
        try:
            interpreter.interact(banner=start, exitmsg=end)
        finally:
            # Before Python 3.13 `code.interact` leaves these names in `sys`, and they mark a program as interactive.
            for name in {"ps1", "ps2"} - before:
                vars(sys).pop(name, None)

    def do_debug(self, arg: str) -> None:
        """debug code

        Not here: a rank stops at one place at a time.
        """
        del arg
        self.error("a rank stops at one place at a time; set a breakpoint where the program calls it")

    def do_commands(self, arg: str) -> Any:
        """Read the commands for a breakpoint."""
        with _waiting_for(self._console, PromptState.COMMANDS):
            return super().do_commands(arg)

    do_commands.__doc__ = pdb.Pdb.do_commands.__doc__

    def do_run(self, arg: str) -> bool:
        """run

        Not here: a rank is started by its launcher.
        """
        del arg
        self.error("a rank can't be run again from inside; its launcher starts it")
        return False

    do_restart = do_run

    def do_quit(self, arg: str) -> Any:
        """q(uit) | exit

        Ask how to leave: continue, kill this rank, or stay.
        """
        del arg
        whole_job = ", which ends the whole job" if self._workplace.is_launched() else ""
        address = self._workplace.broker.address
        crash = self._workplace.halt.crash
        go_on = "continue" if crash is None else crash.continue_effect
        self._console.write(f"Leave pdb in {address}: {go_on}, kill this rank{whole_job}, or stay? [c/k/s] ")
        with _waiting_for(self._console, PromptState.CONFIRM):
            try:
                answer = self._console.readline().strip().lower()
            except KeyboardInterrupt:
                answer = "stay"
        if answer in ("c", "continue"):
            self.release()
            return True
        if answer in ("k", "kill"):
            self._workplace.kill()
        self.message("staying in pdb; to detach only the terminal, type `detach` or Ctrl-] d")
        if self._runs_commands:
            raise QuitDeclined
        return False

    do_q = do_quit
    do_exit = do_quit
    do_EOF = do_quit  # noqa: N815 - pdb's name for Ctrl-D

    # --------------------------------------------------------------------------------------------------------- prompts

    def cmdloop(self, intro: Any = None) -> None:
        """Read commands until one resumes the program."""
        self._runs_commands = False
        state = PromptState.COMMANDS if getattr(self, "commands_defining", False) else PromptState.COMMAND
        with _waiting_for(self._console, state):
            super().cmdloop(intro)

    def precmd(self, line: str) -> Any:
        """Keep blocks of several lines whole: aliases and ``;;`` are only for commands."""
        with self.interruptible():
            return line if is_block(line) else super().precmd(line)
