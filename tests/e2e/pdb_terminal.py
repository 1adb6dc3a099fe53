"""The real terminal at the pdb of one rank: prompts are answered, and output is read off the screen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.processes import Child
from tests.support.ranks import attach_command
from tests.support.sessions import DETACH
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds
from tests.unit.agent.pdb_scripts import Event

Answer = Callable[[list[Event]], str | None]
"""A function from the events since the last prompt to the reply; None detaches for good."""

ROWS, COLUMNS = 28, 150
"""Rows are too few for the source to be shown after each stop; columns hold every line that pdb prints in a script."""

SCROLLED = 80
"""Rows of the emulated screen, so that rows which a window of ROWS would scroll out can still be read."""

CLEAR = b"\x0c"
"""Ctrl-L: the prompt goes to the top of an empty screen."""

NEXT_STOP = 5.0
"""Seconds that a rank has to end after its terminal has; otherwise its next stop is waited for."""

WENT_ON, ENDED = 7, 8

BUSY = re.compile(r"Ctrl-C|the debugger opens")
"""Text of the toolbar while no prompt is open."""

OWN_WORDS = re.compile(
    r"\S+ is running, [0-9]+ (?:breakpoints? left|more threads? stopped).*\.$"
    r"|Its debugger comes back here at the next stop\.$"
)


class PdbWindow:
    """A window at the only rank of a job, with all events that are seen there."""

    def __init__(self, open_terminal: OpenTerminal, child: Child, job: str, noted: Path) -> None:
        self._open_terminal = open_terminal
        self._child = child
        self._target = f"{job}/0"
        self._noted = noted
        self._read = 0
        self._told = 0
        self._terminal: Terminal | None = None
        self.events: list[Event] = []

    def drive(self, answer: Answer) -> bool:
        """Reply to all prompts of the process until it has ended; return False if ``answer`` leaves before."""
        while True:
            terminal = self._open()
            while self._stands_at_prompt(terminal):
                if not self._reply(terminal, answer):
                    return False
            status = terminal.exit_status()
            assert status in (WENT_ON, ENDED), terminal.dump()
            if self._child.ends_within(seconds(NEXT_STOP)):
                self._note_program()
                return True

    def _open(self) -> Terminal:
        """Open a window that waits for the rank to stop, like a user's whose rank was started elsewhere."""
        command = attach_command("wait", self._target, "--engine", "pdb", "--for", "60")
        terminal = self._open_terminal(command, rows=ROWS, cols=COLUMNS)
        terminal.virtual.resize(SCROLLED, COLUMNS)
        terminal.wait_for(lambda it: it.ended or _prompt_row(it.screen) is not None)
        self._note_program()
        rows = terminal.screen
        attached = next((number for number, row in enumerate(rows) if row.startswith("Attached to ")), len(rows))
        self._show(rows[attached + 1 : _prompt_row(rows)])
        return terminal

    def _stands_at_prompt(self, terminal: Terminal) -> bool:
        return _prompt_row(terminal.screen) is not None and not terminal.ended

    def _reply(self, terminal: Terminal, answer: Answer) -> bool:
        """Reply to the open prompt, and note all events up to the next prompt; return False if ``answer`` leaves."""
        terminal.send(CLEAR)
        terminal.wait_for(lambda it: _prompt_row(it.screen) == 0)
        prompt = terminal.row(0)
        confirms = prompt.endswith("[c/k/s]")
        told, self._told = self._told, len(self.events)
        reply = "k" if confirms else answer(self.events[told:])
        if reply is None:
            self.events.append(["prompt", f"{prompt} ", None])
            terminal.send(DETACH)
            assert terminal.exit_status() == 0, terminal.dump()
            return False
        terminal.send(f"{reply}\r")
        terminal.wait_for(lambda it: it.ended or (_prompt_row(it.screen) or 0) > 0)
        typed, *rows = terminal.screen
        assert typed.startswith(prompt), terminal.dump()
        # Blanks at the end of a reply can't be seen.
        seen = reply.rstrip()
        assert typed.endswith(seen), terminal.dump()
        asked = typed.removesuffix(seen)
        self.events += [["confirm" if confirms else "prompt", asked, seen], ["log", f"{typed}\n"]]
        self._note_program()
        end = _prompt_row(terminal.screen)
        self._show(rows[: end - 1] if end is not None else _without_farewell(rows))
        return True

    def _show(self, rows: list[str]) -> None:
        """Note these rows of the screen, without the terminal's own words about a running rank."""
        kept = [row for row in rows if not OWN_WORDS.match(row)]
        if kept:
            self.events.append(["log", "".join(f"{row}\n" for row in kept)])

    def _note_program(self) -> None:
        """Note what the program has printed since the last reply let it go on."""
        text = self._noted.read_text(encoding="utf-8") if self._noted.exists() else ""
        self.events += [json.loads(line) for line in text[self._read :].splitlines()]
        self._read = len(text)


def _prompt_row(rows: list[str]) -> int | None:
    """Return the row of the prompt that waits for a reply, just above the toolbar; None if no prompt does."""
    last = max((number for number, row in enumerate(rows) if row), default=0)
    waits = "  stopped  " in rows[last] and not BUSY.search(rows[last])
    return last - 1 if waits and last > 0 else None


def _without_farewell(rows: list[str]) -> list[str]:
    """Return the rows above the last words of the terminal."""
    said = [number for number, row in enumerate(rows) if row]
    return rows[: said[-1]] if said else []
