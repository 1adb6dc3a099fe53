"""Attachment of this terminal: finds the rank, runs sessions at it, and reports how the last session ended."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shlex
import sys
import termios
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_client.core.choose import Choice, choose, choose_when_ready
from dbg_client.core.errors import NoTerminal, RankEnded
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import Switchboard, open_and_list, switchboard_to
from dbg_client.core.wait_progress import WaitingLine, read_in_thread
from dbg_client.core.waiting import wait_for_stop, with_signal
from dbg_client.shell.streams import has_cursor, notify, show_waiting, terminal_size
from dbg_client.terminal.recording import Recording
from dbg_client.terminal.session import MAX_DEED, End, Session, SessionOptions, SessionOutcome, how_it_ended
from dbg_command.targets import Target, parse_target, unique_target
from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_INPUT_PENDING, MAX_TEXT
from dbg_wire.records.ranks import RankInfo

if TYPE_CHECKING:
    from dbg_client.terminal.verb import Attach

WENT_ON = 7
"""Exit status if the rank's stop ended while this terminal was attached."""

_FEW_COLORS = ("linux", "vt", "ansi", "dumb", "cons", "screen.linux")
"""Beginnings of TERM for terminals with eight or sixteen colours."""


async def attach(settings: Attach) -> int:
    """Attach to the target, or to the rank that the user picks, and return the exit status.

    Raises DbgError if no session begins, or if one fails.
    """
    require_terminal()
    target = None
    if settings.target is not None:
        target = await read_in_thread(partial(read_target, settings.target, os.environ), settings.broker.timeout)
    startup = await asyncio.to_thread(read_startup, settings.attach.commands)
    switchboard = switchboard_to(settings.broker.address, settings.broker.timeout)
    path = settings.record
    recording = None if path is None else await asyncio.to_thread(Recording, path, terminal_size)
    attaching = Attaching(settings, switchboard, startup, recording=recording)
    try:
        await open_and_list(switchboard, attaching.line, notify)
        return await attaching.run(target)
    finally:
        await switchboard.close()
        if recording is not None and (problem := recording.close()):
            notify(f"{problem}.")


def require_terminal() -> None:
    """Raise NoTerminal unless stdin and stdout are terminals."""
    for stream, name in ((sys.stdin, "stdin"), (sys.stdout, "stdout")):
        if not stream.isatty():
            raise NoTerminal(
                f"{name} is not a terminal, but attaching needs one",
                "use `screen` to print the debugger's screen, or `list` for the ranks",
            )
    if not has_cursor(os.environ):
        term = printable(os.environ.get("TERM") or "not set")
        raise NoTerminal(
            f"TERM is {term}, but attaching needs a terminal with a movable cursor",
            "set it, e.g. TERM=xterm-256color; or use list, where, eval, command or screen, which print text",
        )


class Startup:
    """Startup commands, sent once to each process of a rank."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self._lines = tuple(lines)
        self._left: dict[str, deque[str]] = {}

    def for_rank(self, key: str) -> deque[str]:
        """Return the lines that this rank has not received yet; the caller removes each line that it sends."""
        return self._left.setdefault(key, deque(self._lines))


def read_startup(file: str | None) -> Startup:
    """Return the commands in ``file``, if one is named.

    Blocks for a small file. Raises BadInput if it can't be read, is not text or is too long.
    """
    return Startup(_read(Path(file)) if file is not None else ())


def commands_of(text: str) -> list[str]:
    """Return the lines that are commands: neither empty nor comments, as in ``.pdbrc``."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _read(path: Path) -> list[str]:
    shown, remedy = printable(str(path)), "name another file with -x"
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_INPUT_PENDING + 1)
    except UnicodeDecodeError:
        raise BadInput(f"{shown} is not UTF-8 text", remedy) from None
    except OSError as error:
        raise BadInput(f"{shown} can't be read ({error.strerror or type(error).__name__})", remedy) from None
    commands = commands_of(text)
    if len(text) > MAX_INPUT_PENDING or any(len(line) > MAX_TEXT for line in commands):
        raise BadInput(f"{shown} is too long; at most {MAX_INPUT_PENDING:,} characters are allowed", remedy)
    return commands


class Attaching:
    """Runner of one session after another over the same connection to the broker."""

    def __init__(
        self,
        settings: Attach,
        switchboard: Switchboard,
        startup: Startup,
        *,
        recording: Recording | None = None,
    ) -> None:
        self._settings = settings
        self._startup = startup
        self._switchboard = switchboard
        self._recording = recording
        self.directory = switchboard.directory
        self.line = WaitingLine(show_waiting)

    async def run(self, target: Target | None) -> int:
        """Run sessions until the user leaves, and return the exit status. Raises DbgError."""
        choice = await self._first_choice(target)
        if choice is None:
            return 0
        if target is None:
            target = parse_target(unique_target(choice.rank, self.directory.ranks))
        while True:
            outcome = await self.session(choice)
            if outcome.loss is not None:
                notify(outcome.loss)
            if not self._continues(outcome):
                return self._report(outcome)
            notify(f"{how_it_ended(outcome)}.")
            choice = await self._wait(target, math.inf, outcome.rank)

    async def _first_choice(self, target: Target | None) -> Choice | None:
        """Return the first rank, or None if the user picked none."""
        if target is None:
            from dbg_client.terminal.picker import pick_from

            return await pick_from(self._switchboard)
        if self._settings.deadline is not None:
            return await self._wait(target, self._settings.deadline)
        if self._settings.attach.follow:
            return await self._wait(target, math.inf)
        return choose(target, self.directory.ranks)

    async def _wait(self, target: Target, seconds: float, ended: RankInfo | None = None) -> Choice:
        choice = choose_when_ready(target, self.directory.ranks, ended)
        if choice is None:
            choice = await wait_for_stop(self._switchboard, target, seconds, ended, notify=notify, line=self.line)
            # Keys that an impatient user typed during the wait were not meant for the debugger.
            with contextlib.suppress(termios.error):
                termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        return choice

    async def session(self, choice: Choice) -> SessionOutcome:
        """Run one session, and return its outcome."""
        asked = self._settings.attach
        options = SessionOptions(
            attach=asked.replace(mode=choice.mode(asked.mode)),
            colors=_colors(),
            color=self._settings.color,
            startup=self._startup.for_rank,
            note=choice.note,
            recording=self._recording,
        )
        outcome = await Session(self._switchboard, choice.rank, options).run()
        if isinstance(outcome.error, RankEnded):
            # Wait: the broker sees the end of a process before the guard has reported which signal killed it.
            ended = await with_signal(self._switchboard, outcome.error.rank)
            outcome = replace(outcome, error=RankEnded(ended))
        return outcome

    def _continues(self, outcome: SessionOutcome) -> bool:
        if not self._settings.attach.follow or outcome.end is End.DETACHED:
            return False
        return outcome.opened or outcome.end is End.WENT_ON

    def _report(self, outcome: SessionOutcome) -> int:
        if outcome.error is not None:
            if outcome.ended_by:
                notify(f"{printable(outcome.ended_by, MAX_DEED)}.")
            raise outcome.error
        if outcome.end is End.WENT_ON:
            notify(f"{how_it_ended(outcome)}; --follow waits for its next stop")
            return WENT_ON
        # Two jobs may have ranks with the same address, so reattaching may need the job's name, too.
        target = printable(shlex.quote(unique_target(outcome.rank, self.directory.ranks)))
        notify(
            f"Detached from {printable(outcome.rank.address)}, which stays as it is; `dbg-attach {target}` reattaches."
        )
        return 0


def _colors() -> int:
    term = os.environ.get("TERM", "")
    return 16 if "256" not in term and term.startswith(_FEW_COLORS) else 256
