"""``--tmux``: find the ranks of a set, and open a window of tmux in which each has a pane attached to it.

A server of tmux has the environment of the shell that started it, days ago perhaps, and its arguments are for all
users of the host to see. So a pane is told nothing but where to ask: this process waits on a socket in a directory of
its own, and hands each pane environment, directory and command line. No secret is in an argument or on a disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dbg_client.core.choose import find
from dbg_client.core.deadline import read_in_thread
from dbg_client.core.left_breakpoints import read_breakpoints
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import switchboard_to
from dbg_client.core.waiting import open_and_list
from dbg_client.core.waiting_line import WaitingLine
from dbg_client.errors import NeedsTarget, NoTerminal, RankEnded, TimedOut
from dbg_client.streams import show_waiting
from dbg_client.tmux import pane_process
from dbg_client.tmux.tmux import (
    MAX_PANES,
    TmuxPane,
    WindowPlace,
    attach_session,
    kill_pane,
    living_panes,
    open_window,
    plain_name,
    split_beside,
    with_loader_path,
)
from dbg_client.words.settings import CommandSettings
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import Breakpoint, RankInfo, RankState
from dbg_wire.targets.selection import unique_target

START_SECONDS = 60.0
"""Seconds for all panes to have started: each is a Python, on a login node with a cold cache perhaps."""


class TooManyPanes(BadInput):
    """Say that a set has more ranks than one can look at."""

    def __init__(self, target: str, ranks: int) -> None:
        super().__init__(
            f"{printable(target)} has {ranks} ranks, and {MAX_PANES} panes are the most that can be read in a window",
            "name fewer, or ask all of them with -w, -e or -c",
        )


@dataclass(frozen=True, slots=True)
class PanePlan:
    """What is written above a pane, and the arguments of the dbg-attach in it."""

    title: str
    words: tuple[str, ...]


def open_panes(settings: CommandSettings) -> int:
    """Open the window and return the exit status; outside of tmux become a terminal of the new session.

    Raises DbgError, with nothing left behind.
    """
    if settings.target is None:
        raise NeedsTarget(settings.called)
    place = _place(os.environ)
    ranks, known = asyncio.run(_find(settings, settings.target))
    plans = plan_panes(settings, settings.target, ranks, known)
    with _listening() as listener:
        window = open_window(place, settings.target, _panes(plans, listener.getsockname()))
        try:
            if place.inside:
                window.show()
            _hand_over(listener, plans)
            window.has_begun()
        except BaseException:
            window.kill()
            raise
    if not place.inside:
        attach_session(window.session)
    return 0


def open_pane_beside(
    settings: CommandSettings, rank: RankInfo, known: Sequence[RankInfo], behind: str, *, is_first: bool
) -> str:
    """Return the id of a new pane that follows a rank, at the side of a pane or below one. Blocks; raises DbgError."""
    plan = _plan(settings, rank, known, follow=True)
    with _listening() as listener:
        (pane,) = _panes([plan], listener.getsockname())
        made = split_beside(behind, pane, sideways=is_first)
        try:
            _hand_over(listener, [plan])
        except BaseException:
            kill_pane(made)
            raise
    return made


def _place(environ: Mapping[str, str]) -> WindowPlace:
    if environ.get("TMUX"):
        return WindowPlace(0, 0, inside=True)
    try:
        os.ttyname(sys.stdin.fileno())
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        raise NoTerminal(
            "--tmux needs a terminal to show its window in", "type it in a terminal, or in a pane of tmux"
        ) from None
    return WindowPlace(columns or 80, rows or 24, inside=False)


async def _find(settings: CommandSettings, text: str) -> tuple[tuple[RankInfo, ...], tuple[RankInfo, ...]]:
    """Return the ranks of the target, and all that are known."""
    target = await read_in_thread(partial(read_target, text, os.environ), settings.timeout)
    switchboard = switchboard_to(settings.broker, settings.timeout)
    try:
        await open_and_list(switchboard, WaitingLine(show_waiting))
    finally:
        await switchboard.close()
    known = switchboard.directory.ranks
    return find(target, known).ranks, known


def plan_panes(
    settings: CommandSettings, text: str, ranks: Sequence[RankInfo], known: Sequence[RankInfo]
) -> list[PanePlan]:
    """Return a plan for each rank. Raises RankEnded if all have exited, and TooManyPanes."""
    if all(rank.state is RankState.EXITED for rank in ranks):
        raise RankEnded(ranks[0])
    if len(ranks) > MAX_PANES:
        raise TooManyPanes(text, len(ranks))
    # A pane follows its rank: a running rank shows up when it stops. If all ranks are held, the user means them as they
    # are: a terminal that waits for a stop would wait for ever.
    follow = not all(rank.state is RankState.HELD for rank in ranks)
    return [_plan(settings, rank, known, follow=follow) for rank in ranks]


def _plan(settings: CommandSettings, rank: RankInfo, known: Sequence[RankInfo], *, follow: bool) -> PanePlan:
    short = unique_target(rank, known)
    # With its job, so that a job which comes later doesn't make it ambiguous.
    target = short if "/" in short else f"{rank.job}/{short}"
    return PanePlan(plain_name(short), (*attach_words(settings, follow=follow), "--", target))


def attach_words(settings: CommandSettings, *, follow: bool) -> list[str]:
    """Return the options that give a pane's dbg-attach these settings."""
    words = [f"--timeout={settings.timeout!r}", f"--escape={_escape(settings.prefix)}"]
    flags = (
        ("--follow", follow or settings.follow),
        ("--watch", settings.mode is Mode.WATCH),
        ("--take", settings.mode is Mode.TAKE),
        ("--no-status", not settings.status),
        ("--no-rc", not settings.rc),
        ("--vi", settings.vi),
        ("--verbose", settings.verbose),
    )
    words += [name for name, given in flags if given]
    if settings.wait is not None and math.isfinite(settings.wait):
        words.append(f"--wait={settings.wait!r}")
    if settings.frame:
        words.append(f"--frame={settings.frame}")
    for name, value in (
        ("--engine=", settings.wish.asked),
        ("--broker=", settings.broker),
        ("-x", settings.commands),
        ("--breakpoints-to=", settings.breakpoints_to),
    ):
        if value is not None:
            words.append(f"{name}{value}")
    return words


def _escape(prefix: bytes | None) -> str:
    return "none" if prefix is None else f"^{chr(prefix[0] ^ 0x40)}"


def _panes(plans: Sequence[PanePlan], socket_path: str) -> list[TmuxPane]:
    python = [sys.executable, "-I", "-S", pane_process.__file__, socket_path]
    return [
        TmuxPane(plan.title, with_loader_path([*python, str(number)], os.environ)) for number, plan in enumerate(plans)
    ]


@contextlib.contextmanager
def _listening() -> Iterator[socket.socket]:
    """Listen where no other user can connect; the socket's file is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="dbg-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder) / "s")
        try:
            listener.bind(path)
        except OSError as error:
            raise BadInput(
                f"no socket can be made at {printable(path)} ({printable(str(error))})",
                "set TMPDIR to a directory of this host with a short name",
            ) from None
        listener.listen(MAX_PANES)
        yield listener


def _hand_over(listener: socket.socket, plans: Sequence[PanePlan]) -> None:
    document = json.dumps(
        {
            "environ": dict(os.environ),
            "directory": _directory(),
            "panes": [(plan.title, plan.words) for plan in plans],
        }
    ).encode()
    remaining = _until(START_SECONDS)
    for started in range(len(plans)):
        try:
            listener.settimeout(remaining())
            connection, _ = listener.accept()
            with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its pane has been closed
                connection.settimeout(remaining())
                connection.sendall(document)
        except TimeoutError:
            raise TimedOut(f"only {started} of {len(plans)} panes started within {START_SECONDS:g} s") from None


def _until(seconds: float) -> Callable[[], float]:
    deadline = time.monotonic() + seconds
    return lambda: max(0.001, deadline - time.monotonic())


def _directory() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None


class RankPanes:
    """The panes of the ranks that have stopped; one is opened anew if its rank stops after somebody has closed it.

    ``folder`` is for files of the panes, and is removed at the end.
    """

    def __init__(self, settings: CommandSettings, own_pane: str, say: Callable[[str], None], folder: str) -> None:
        self._settings = settings
        self._own = own_pane
        self._say = say
        self._panes: dict[str, str] = {}
        self._folder = folder
        self._files: dict[str, str] = {}
        """The file of each rank's pane, in which it tells the breakpoints that are set there."""

    async def show(self, rank: RankInfo, known: Sequence[RankInfo]) -> None:
        """Open a pane for a rank that has none; a pane that can't be opened is told, and nothing else happens."""
        try:
            await asyncio.to_thread(self._open, rank, known)
        except DbgError as error:
            target = printable(f"{rank.job}/{rank.address}")
            self._say(f"dbg-attach: {error}; `dbg-attach {target}` attaches in another terminal")

    def _open(self, rank: RankInfo, known: Sequence[RankInfo]) -> None:
        there = living_panes()
        self._panes = {key: pane for key, pane in self._panes.items() if pane in there}
        if rank.key in self._panes:
            return
        if len(self._panes) >= MAX_PANES:
            raise TooManyStopped(rank.address)
        last = next(reversed(self._panes.values()), None)
        file = self._files.setdefault(rank.key, str(Path(self._folder, f"{len(self._files)}.json")))
        settings = replace(self._settings, breakpoints_to=file)
        self._panes[rank.key] = open_pane_beside(settings, rank, known, last or self._own, is_first=last is None)

    def breakpoints(self) -> tuple[Breakpoint, ...]:
        """Return what people have set in the panes, ordered by file and line, each once. Blocks."""
        found = {one for file in self._files.values() for one in read_breakpoints(file)}
        return tuple(sorted(found, key=lambda one: (one.file, one.line, one.condition or "")))

    async def close(self, living: Sequence[RankInfo]) -> None:
        """Close the panes of all ranks but those that are still there; what is set in these from now on is lost."""
        keys = {rank.key for rank in living}
        for key, pane in self._panes.items():
            if key not in keys:
                await asyncio.to_thread(kill_pane, pane)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class TooManyStopped(DbgError):
    """Say that there are as many panes as one can look at."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"{printable(self.address)} is stopped, and has no pane, as {MAX_PANES} are open"
