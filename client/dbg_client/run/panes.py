"""A window of tmux with a pane for each rank of a set, and an attach in each.

A server of tmux has the environment of the shell that started it, days ago perhaps. So each pane is given the variables
of ours, but for a token: the arguments of tmux are for all users of the host to see.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dbg_client.core.choose import find
from dbg_client.core.errors import NeedsTarget, NoTerminal, RankEnded
from dbg_client.core.own_process import ATTACH, own_command
from dbg_client.core.patience import WaitingLine, read_in_thread
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import open_and_list, switchboard_to
from dbg_client.run.verb import Tmux
from dbg_client.shell.streams import show_waiting
from dbg_client.verbs.attach_options import AttachOptions
from dbg_client.verbs.verb import BrokerOptions
from dbg_command.targets import unique_target
from dbg_dial.home import TOKEN, TOKEN_FILE
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import RankInfo, RankState

MAX_PANES = 16
"""Panes in one window: on a large screen of 320 x 80 each has 80 x 19 then, and a debugger can't be read in less."""

MAX_NAME = 40
"""Characters of a window's name: tmux shows several names in its status line."""

ANSWER_SECONDS = 20.0
"""Seconds for one answer of tmux: it takes milliseconds, and a server that is suspended takes for ever."""

_OPTIONS = (
    ("pane-border-status", "top"),
    ("pane-border-format", "#{?pane_active,#[reverse],} #{pane_title} #[default]"),
    # A pane whose session has ended stays, with its last words.
    ("remain-on-exit", "on"),
)


class TooManyPanes(BadInput):
    """Say that a set has more ranks than one can look at."""

    def __init__(self, target: str, ranks: int) -> None:
        super().__init__(
            f"{printable(target)} has {ranks} ranks, and {MAX_PANES} panes are the most that can be read in a window",
            "name fewer, or ask all of them with where, eval or command",
        )


class TmuxFailed(DbgError):
    """Say what tmux would not do, in its own words."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        remedy = "make the terminal larger, or name fewer ranks" if "no space" in self.reason else "no window is left"
        return f"tmux did not {self.what} ({printable(self.reason)}); {remedy}"


@dataclass(frozen=True, slots=True)
class Pane:
    """What is written above a pane, and the arguments of the dbg-attach in it."""

    title: str
    words: tuple[str, ...]


def open_panes(settings: Tmux) -> int:
    """Open the window and return the exit status; outside of tmux become a terminal of the new session.

    Raises DbgError, with nothing left behind.
    """
    if settings.target is None:
        raise NeedsTarget(settings.name)
    size = _size(os.environ)
    given = given_environment(os.environ)
    ranks, known = asyncio.run(_find(settings.broker, settings.target))
    session = open_window(settings.target, plan_panes(settings, settings.target, ranks, known), size, given)
    if size is not None:
        os.execvp("tmux", ["tmux", "attach-session", "-t", session])  # noqa: S606 - found on PATH as all of it
    return 0


def given_environment(environ: Mapping[str, str]) -> list[str]:
    """Return the options of tmux that give a pane our variables. Raises BadInput for a token, which all would see."""
    if TOKEN in environ and TOKEN_FILE not in environ:
        raise BadInput(
            f"{TOKEN} would be in a command line, which every user of this host can read", f"set {TOKEN_FILE}"
        )
    ours = (name for name in environ if name.startswith("DBG_") and name != TOKEN)
    return [word for name in ours for word in ("-e", f"{name}={environ[name]}")]


def _size(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return columns and rows of this terminal; None inside of tmux. Raises NoTerminal."""
    if environ.get("TMUX"):
        return None
    try:
        os.ttyname(sys.stdin.fileno())
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        raise NoTerminal(
            "tmux needs a terminal to show its window in", "type it in a terminal, or in a pane of tmux"
        ) from None
    return columns or 80, rows or 24


async def _find(broker: BrokerOptions, text: str) -> tuple[tuple[RankInfo, ...], tuple[RankInfo, ...]]:
    """Return the ranks of the target, and all that are known."""
    target = await read_in_thread(partial(read_target, text, os.environ), broker.timeout)
    switchboard = switchboard_to(broker.address, broker.timeout)
    try:
        await open_and_list(switchboard, WaitingLine(show_waiting))
    finally:
        await switchboard.close()
    known = switchboard.directory.ranks
    return find(target, known).ranks, known


def plan_panes(settings: Tmux, text: str, ranks: Sequence[RankInfo], known: Sequence[RankInfo]) -> list[Pane]:
    """Return a pane for each rank. Raises RankEnded if all have exited, and TooManyPanes."""
    if all(rank.state is RankState.EXITED for rank in ranks):
        raise RankEnded(ranks[0])
    if len(ranks) > MAX_PANES:
        raise TooManyPanes(text, len(ranks))
    # A pane follows its rank: a running rank shows up when it stops. If all ranks are held, the user means them as they
    # are: a terminal that waits for a stop would wait for ever.
    follow = not all(rank.state is RankState.HELD for rank in ranks)
    words = attach_words(settings.broker, settings.attach, follow=follow)
    panes = []
    for rank in ranks:
        short = unique_target(rank, known)
        # With its job, so that a job which comes later doesn't make it ambiguous.
        panes.append(Pane(plain_name(short), (*words, "--", short if "/" in short else f"{rank.job}/{short}")))
    return panes


def attach_words(broker: BrokerOptions, settings: AttachOptions, *, follow: bool) -> list[str]:
    """Return the options that give a pane's dbg-attach these settings."""
    words = [f"--timeout={broker.timeout!r}", f"--escape={_escape(settings.prefix)}"]
    flags = (
        ("--follow", follow or settings.follow),
        ("--watch", settings.mode is Mode.WATCH),
        ("--take", settings.mode is Mode.TAKE),
        ("--no-status", not settings.status),
        ("--no-rc", not settings.rc),
        ("--vi", settings.vi),
    )
    words += [name for name, given in flags if given]
    if settings.frame:
        words.append(f"--frame={settings.frame}")
    for name, value in (
        ("--engine=", settings.wish.asked),
        ("--broker=", broker.address),
        ("-x", settings.commands),
    ):
        if value is not None:
            words.append(f"{name}{value}")
    return words


def _escape(prefix: bytes | None) -> str:
    return "none" if prefix is None else f"^{chr(prefix[0] ^ 0x40)}"


def open_window(name: str, panes: Sequence[Pane], size: tuple[int, int] | None, given: Sequence[str]) -> str:
    """Return the session of a new window with these panes, tiled in their order.

    ``size`` is in columns and rows, for a session of its own; None shows the window in the session of this terminal.
    """
    made = ["new-window"] if size is None else ["new-session", "-x", str(size[0]), "-y", str(size[1])]
    ids = ["-d", "-P", "-F", "#{session_id} #{window_id} #{pane_id}"]
    session = window = last = ""
    try:
        for pane in panes:
            where = ["split-window", "-t", last] if last else [*made, "-n", plain_name(name)]
            command = map(literal, own_command(ATTACH, pane.words))
            ours = _tmux("open a pane", [*where, *ids, "-c", _directory(), *given, *command])
            session, window, last = ours.split()
            with contextlib.suppress(TmuxFailed):  # a tmux that is too old does without
                for option in _OPTIONS:
                    _tmux("take an option", ["set-option", "-w", "-t", window, *option])
                _tmux("name a pane", ["select-pane", "-t", last, "-T", pane.title])
            # A split halves one pane, so that the sixth would find no room.
            _tmux("tile the window", ["select-layout", "-t", window, "tiled"])
        if size is None:
            _tmux("show the window", ["select-window", "-t", window])
    except BaseException:
        if window:
            with contextlib.suppress(TmuxFailed):
                _tmux("close the window", ["kill-window", "-t", window])
        raise
    return session


def _directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return "/"  # it was removed


def plain_name(text: str) -> str:
    """Return a name that tmux shows as it is: ``#`` begins a format, and formats run commands."""
    return printable(text, MAX_NAME).replace("#", "?")


def literal(argument: str) -> str:
    """Return an argument that tmux takes as it is: a semicolon at its end would be the end of a command."""
    return f"{argument[:-1]}\\;" if argument.endswith(";") else argument


def _tmux(what: str, command: Sequence[str]) -> str:
    """Return what tmux prints. Raises TmuxFailed."""
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
        raise TmuxFailed(what, f"no answer within {ANSWER_SECONDS:g} s") from None
    except OSError as error:
        raise TmuxFailed(what, f"it can't be run: {error.strerror or type(error).__name__}") from None
    if done.returncode != 0:
        raise TmuxFailed(what, done.stderr.strip() or f"status {done.returncode}")
    return done.stdout
