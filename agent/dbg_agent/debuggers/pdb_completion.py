"""A pdb that completes what is typed at its prompt, and knows the ticket that interrupts the running command."""

from __future__ import annotations

import cmd
import pdb
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from dbg_agent.debuggers.engine import Engine
from dbg_agent.frames.variables import WRITES_THROUGH
from dbg_agent.values.evaluation import runs_nothing
from dbg_wire.limits import COMPLETION_SECONDS, MAX_COMPLETIONS


class CompletingPdb(Engine, pdb.Pdb):
    """A pdb that completes as it would at a terminal of its own, but runs no code that could block the rank."""

    ticket: int | None = None
    """The ticket that interrupts the running command; None if no command runs."""

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Hold a ticket that interrupts the command which runs in this context."""
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

    def complete_line(self, line: str, begin: int, end: int) -> tuple[str, ...]:
        """Return completions as pdb would offer them at a terminal of its own, or none if that takes too long.

        Completion looks at attributes, and so may run any code of the program. In the main thread, code that takes too
        long is interrupted. Another thread can't be interrupted while it sleeps, so such code is not run there. A
        prompt inside a command offers no completion, because the interrupt might hit the command.
        """
        in_main = threading.current_thread() is threading.main_thread()
        namespace, frame_locals = self.namespaces()
        if self.ticket is not None or not (
            in_main or runs_nothing({**namespace, **frame_locals}, line[begin:end].lstrip("!"))
        ):
            return ()
        interruptible = self._workplace.interruptible
        try:
            with interruptible.running() as ticket:
                self._workplace.broker.call_later(COMPLETION_SECONDS, partial(interruptible.interrupt, ticket))
                matches = self._completer(line, begin)(line[begin:end], line, begin, end)
        except BaseException:
            return ()
        return tuple(sorted({match for match in matches or () if isinstance(match, str)}))[:MAX_COMPLETIONS]

    def _completer(self, line: str, begin: int) -> Callable[..., Any]:
        if begin == 0:
            return self._complete_first_word
        command = self.parseline(line)[0]
        if command is None or not hasattr(self, f"do_{command}"):
            # The line is an expression or a statement, which only some releases of pdb complete by themselves.
            expression: Callable[..., Any] = self._complete_expression
            return expression
        default: Callable[..., Any] = self.completedefault
        return getattr(self, f"complete_{command}", default)

    def _complete_first_word(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Complete a command or an expression; on an empty line commands only."""
        mark = "!" if text.startswith("!") else ""
        commands = [] if mark else cmd.Cmd.completenames(self, text, line, begin, end)
        aliases = [] if mark else [alias for alias in self.aliases if alias.startswith(text)]
        if not text:
            return [*commands, *aliases]
        found = self._complete_expression(text[len(mark) :], line, begin, end)
        return [*commands, *aliases, *(f"{mark}{name}" for name in found)]
