"""Open a window of tmux with one pane for each of several commands, and end it if it can't be made whole.

The commands to tmux are made by pure functions; :class:`Window` alone runs them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_wire.errors import DbgError, printable

MAX_PANES = 16
"""Panes in one window: on a large screen of 320 x 80 each has 80 x 19 then, and a debugger can't be read in less."""

MAX_NAME = 40
"""Characters of a window's name: tmux shows several names in its status line."""

ANSWER_SECONDS = 20.0
"""Seconds for one answer of tmux: it takes milliseconds, and a server that is suspended takes for ever."""

_LOADER_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables without which an interpreter from an environment module does not even start."""


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


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """Where the window is to be: in the session that this terminal shows, or in a new one of this size."""

    columns: int
    rows: int
    inside: bool


def plain_name(text: str, limit: int = MAX_NAME) -> str:
    """Return a name that tmux shows as it is: ``#`` begins a format, and formats run commands."""
    return printable(text, limit).replace("#", "?")


def with_loader_path(command: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command with the loader's variables, which a server of tmux that was started earlier may lack."""
    needed = [f"{name}={environ[name]}" for name in _LOADER_PATHS if environ.get(name)]
    return ("env", *needed, *command) if needed else tuple(command)


def open_command(place: WindowPlace, name: str, pane: TmuxPane) -> list[str]:
    """Return what makes the window with its first pane, and prints the ids of session, window and pane."""
    ids = ["-d", "-P", "-F", "#{session_id} #{window_id} #{pane_id}", "-n", _literal(plain_name(name))]
    size = ["-x", str(place.columns), "-y", str(place.rows)]
    made = ["new-window", *ids] if place.inside else ["new-session", *ids, *size]
    return [*made, *map(_literal, pane.command)]


def split_command(behind: str, pane: TmuxPane) -> list[str]:
    """Return what makes one more pane behind another, and prints its id."""
    return ["split-window", "-d", "-P", "-F", "#{pane_id}", "-t", behind, *map(_literal, pane.command)]


def tile_command(window: str) -> list[str]:
    """Return what gives all panes the same size: a split halves one pane, and the sixth would find no room."""
    return ["select-layout", "-t", window, "tiled"]


def title_command(pane: str, title: str) -> list[str]:
    """Return what names a pane."""
    return ["select-pane", "-t", pane, "-T", _literal(plain_name(title))]


def option_commands(window: str) -> list[list[str]]:
    """Return what makes the window easier to read; a tmux that is too old for one of them does without."""
    border = "#{?pane_active,#[reverse],} #{pane_title} #[default]"
    return [
        # A pane whose program could not even start must stay, with what it wrote.
        ["set-option", "-w", "-t", window, "remain-on-exit", "failed"],
        ["set-option", "-w", "-t", window, "pane-border-status", "top"],
        ["set-option", "-w", "-t", window, "pane-border-format", border],
    ]


def _literal(argument: str) -> str:
    # tmux takes a semicolon at the end of any argument for the end of a command.
    return f"{argument[:-1]}\\;" if argument.endswith(";") else argument


class Window:
    """A window that :func:`open_window` has made."""

    def __init__(self, session: str, window: str) -> None:
        self.session = session
        self.window = window

    def show(self) -> None:
        """Show the window in its session. Raises TmuxRefused."""
        _run("show the window", ["select-window", "-t", self.window])

    def has_begun(self) -> None:
        """Take note that all programs run: from now on a pane goes when its program ends.

        With ``failed``, tmux 3.3 at times keeps the pane of a program that has ended well, and nobody can leave it.
        """
        _try(["set-option", "-w", "-t", self.window, "remain-on-exit", "off"])

    def kill(self) -> None:
        """End the window with all that runs in it; a window that is gone already is no error."""
        _try(["kill-window", "-t", self.window])


def open_window(place: WindowPlace, name: str, panes: Sequence[TmuxPane]) -> Window:
    """Return a window with these panes, tiled in their order, which is not shown yet.

    Blocks while tmux works. Raises NoTmux, and TmuxRefused or NoRoom with nothing left behind.
    """
    session, window, last = _ids(_run("open a window", open_command(place, name, panes[0])))
    made = Window(session, window)
    try:
        for command in option_commands(window):
            _try(command)
        _try(title_command(last, panes[0].title))
        for pane in panes[1:]:
            last = _split(window, last, pane, len(panes))
            _try(title_command(last, pane.title))
    except BaseException:
        made.kill()
        raise
    return made


def attach_session(session: str) -> None:
    """Become a terminal of tmux that shows this session; returns only by raising NoTmux."""
    try:
        os.execvp("tmux", ["tmux", "attach-session", "-t", session])  # noqa: S606 - found on PATH as all of it
    except OSError:
        raise NoTmux from None


def split_beside(behind: str, pane: TmuxPane, *, sideways: bool) -> str:
    """Return the id of one more pane, at the side of another one or below it; panes in a row get the same size.

    Raises NoTmux, and TmuxRefused or NoRoom with nothing left behind.
    """
    words = split_command(behind, pane)
    try:
        made = _run("split the window", [words[0], "-h" if sideways else "-v", *words[1:]]).strip()
    except TmuxRefused as refused:
        raise NoRoom(1, refused.reason) if "no space" in refused.reason else refused from None
    _try(title_command(made, pane.title))
    if not sideways:
        _try(["select-layout", "-E", "-t", made])
    return made


def living_panes() -> frozenset[str]:
    """Return the ids of all panes of the server. Raises NoTmux and TmuxRefused."""
    return frozenset(_run("list its panes", ["list-panes", "-a", "-F", "#{pane_id}"]).split())


def kill_pane(pane: str) -> None:
    """End a pane with what runs in it; one that is gone already is no error."""
    _try(["kill-pane", "-t", pane])


def _split(window: str, last: str, pane: TmuxPane, total: int) -> str:
    try:
        made = _run("split the window", split_command(last, pane)).strip()
        _run("tile the window", tile_command(window))
    except TmuxRefused as refused:
        raise NoRoom(total, refused.reason) if "no space" in refused.reason else refused from None
    return made


def _ids(printed: str) -> tuple[str, str, str]:
    words = printed.split()
    if len(words) != 3:
        raise TmuxRefused("open a window", f"it said {printed.strip()!r} instead of what it made")
    return words[0], words[1], words[2]


def _run(what: str, command: Sequence[str]) -> str:
    """Return what tmux prints. Raises NoTmux, and TmuxRefused if tmux fails or does not answer."""
    try:
        done = subprocess.run(
            ["tmux", *command],
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
