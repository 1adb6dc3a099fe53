"""A pdb that completes what is typed at its prompt, and knows what the command that runs can be interrupted with."""

from __future__ import annotations

import cmd
import pdb
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from dbg_wire.limits import COMPLETION_SECONDS, MAX_COMPLETIONS

from .port import Port
from .safe_completion import runs_nothing
from .tracing import Tracing


class CompletingPdb(Tracing, pdb.Pdb):
    """Complete commands and expressions as pdb's own terminal would, but run no code that could keep the rank."""

    _port: Port
    ticket: int | None = None
    """What the command that runs can be interrupted with; None if none does."""

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Know in this context what its command can be interrupted with."""
        before = self.ticket
        with self._port.interruptible.running() as ticket:
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
        # pdb keeps the locals, since reading them anew would undo assignments; releases after 3.13 need that no more.
        frame_locals = getattr(self, "curframe_locals", None)
        return frame.f_globals, frame.f_locals if frame_locals is None else frame_locals

    def complete_line(self, line: str, begin: int, end: int) -> tuple[str, ...]:
        """Return completions as pdb's own terminal would offer them, or none if that takes too long.

        Completing looks at attributes, and so runs code of the program, which may do anything. What takes too long in
        the main thread is interrupted. Elsewhere a thread that sleeps can't be, so no such code is run there. Nor is
        there any completion at a prompt inside a command, which the interrupt might hit.
        """
        in_main = threading.current_thread() is threading.main_thread()
        namespace, frame_locals = self.namespaces()
        if self.ticket is not None or not (
            in_main or runs_nothing({**namespace, **frame_locals}, line[begin:end].lstrip("!"))
        ):
            return ()
        interruptible = self._port.interruptible
        try:
            with interruptible.running() as ticket:
                self._port.call_later(COMPLETION_SECONDS, partial(interruptible.interrupt, ticket))
                matches = self._completer(line, begin)(line[begin:end], line, begin, end)
        except BaseException:
            return ()
        return tuple(sorted({match for match in matches or () if isinstance(match, str)}))[:MAX_COMPLETIONS]

    def _completer(self, line: str, begin: int) -> Callable[..., Any]:
        if begin == 0:
            return self._complete_first_word
        command = self.parseline(line)[0]
        if command is None or not hasattr(self, f"do_{command}"):
            # The line is an expression or a statement, which pdb itself completes in none or only some releases.
            expression: Callable[..., Any] = self._complete_expression
            return expression
        default: Callable[..., Any] = self.completedefault
        return getattr(self, f"complete_{command}", default)

    def _complete_first_word(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Complete a command, or an expression that stands for itself; on an empty line commands only."""
        mark = "!" if text.startswith("!") else ""
        commands = [] if mark else cmd.Cmd.completenames(self, text, line, begin, end)
        aliases = [] if mark else [alias for alias in self.aliases if alias.startswith(text)]
        if not text:
            return [*commands, *aliases]
        found = self._complete_expression(text[len(mark) :], line, begin, end)
        return [*commands, *aliases, *(f"{mark}{name}" for name in found)]
