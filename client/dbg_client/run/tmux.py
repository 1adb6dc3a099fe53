"""Commands to tmux: a window with one pane for each of several commands."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_wire.errors import DbgError, printable

MAX_PANES = 16
"""Panes in one window: on a large screen of 320 x 80 each has 80 x 19 then, and a debugger can't be read in less."""

MAX_NAME = 40
"""Characters of a window's name: tmux shows several names in its status line."""

ANSWER_SECONDS = 20.0
"""Seconds for one answer of tmux: it takes milliseconds, and a server that is suspended takes for ever."""

_OPTIONS = (
    ("pane-border-status", "top"),
    ("pane-border-format", "#{?pane_active,#[reverse],} #{pane_title} #[default]"),
)
"""What makes a window easier to read; a tmux that is too old for one of them does without."""


class NoTmux(DbgError):
    """Say that there is no tmux to be run."""

    def __str__(self) -> str:
        return "tmux is not on PATH; install it, or attach to each rank in a terminal of its own"


class TmuxRefused(DbgError):
    """Say what tmux would not do, in its own words."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"tmux did not {printable(self.what)} ({printable(self.reason)}); no window is left of it"


class NoRoom(TmuxRefused):
    """Say that the panes don't fit into a window."""

    def __init__(self, panes: int, reason: str) -> None:
        super().__init__(f"make {panes} panes", reason)

    def __str__(self) -> str:
        return f"{super().__str__()}: make the terminal larger, or name fewer ranks"


@dataclass(frozen=True, slots=True)
class TmuxPane:
    """What is written above a pane, and the command that runs in it, which no shell reads."""

    title: str
    command: tuple[str, ...]


def plain_name(text: str) -> str:
    """Return a name that tmux shows as it is: ``#`` begins a format, and formats run commands."""
    return printable(text, MAX_NAME).replace("#", "?")


def open_window(name: str, panes: Sequence[TmuxPane], size: tuple[int, int] | None) -> str:
    """Return the session of a new window with these panes, tiled in their order.

    ``size`` is in columns and rows, for a session of its own; None shows the window in the session of this terminal.
    Blocks while tmux works. Raises NoTmux, and TmuxRefused or NoRoom with nothing left behind.
    """
    first, *others = panes
    made = ["new-window"] if size is None else ["new-session", "-x", str(size[0]), "-y", str(size[1])]
    ids = ["-d", "-P", "-F", "#{session_id} #{window_id} #{pane_id}", "-n", plain_name(name)]
    printed = _run("open a window", [*made, *ids, *first.command])
    if len(printed.split()) != 3:
        raise TmuxRefused("open a window", f"it said {printed.strip()!r} instead of what it made")
    session, window, last = printed.split()
    try:
        for option in _OPTIONS:
            _try(["set-option", "-w", "-t", window, *option])
        _give_title(last, first.title)
        for pane in others:
            last = _split(last, pane, len(panes))
            # A split halves one pane, so that the sixth would find no room.
            _run("tile the window", ["select-layout", "-t", window, "tiled"])
        if size is None:
            _run("show the window", ["select-window", "-t", window])
    except BaseException:
        _try(["kill-window", "-t", window])
        raise
    return session


def attach_session(session: str) -> None:
    """Become a terminal of tmux that shows this session; returns only by raising NoTmux."""
    try:
        os.execvp("tmux", ["tmux", "attach-session", "-t", session])  # noqa: S606 - found on PATH as all of it
    except OSError:
        raise NoTmux from None


def _split(behind: str, pane: TmuxPane, total: int) -> str:
    words = ["split-window", "-d", "-P", "-F", "#{pane_id}", "-t", behind, *pane.command]
    try:
        made = _run("split the window", words).strip()
    except TmuxRefused as refused:
        raise NoRoom(total, refused.reason) if "no space" in refused.reason else refused from None
    _give_title(made, pane.title)
    return made


def _give_title(pane: str, title: str) -> None:
    _try(["select-pane", "-t", pane, "-T", plain_name(title)])


def literal(argument: str) -> str:
    """Return an argument that tmux takes as it is: a semicolon at its end would be the end of a command."""
    return f"{argument[:-1]}\\;" if argument.endswith(";") else argument


def _run(what: str, command: Sequence[str]) -> str:
    """Return what tmux prints. Raises NoTmux, and TmuxRefused if tmux fails or does not answer."""
    try:
        done = subprocess.run(
            ["tmux", *map(literal, command)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TmuxRefused(what, f"no answer within {ANSWER_SECONDS:g} s") from None
    except FileNotFoundError:
        raise NoTmux from None
    except OSError as error:
        raise TmuxRefused(what, error.strerror or type(error).__name__) from None
    if done.returncode != 0:
        raise TmuxRefused(what, done.stderr.strip() or f"status {done.returncode}")
    return done.stdout


def _try(command: Sequence[str]) -> None:
    with contextlib.suppress(NoTmux, TmuxRefused):
        _run(command[0], command)
