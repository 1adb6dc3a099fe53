"""The interpreter that ``interact`` opens in the stopped thread."""

from __future__ import annotations

import code
from types import CodeType
from typing import Any

from dbg_agent.engines.console import Console
from dbg_wire.messages import PromptState


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
        before, self._console.state = self._console.state, PromptState.INTERACT
        try:
            line = self._console.readline()
        finally:
            self._console.state = before
        # An empty string is the end of input of a command that was not typed at a terminal.
        if line in ("", "EOF\n"):
            raise EOFError
        return line.rstrip("\n")
