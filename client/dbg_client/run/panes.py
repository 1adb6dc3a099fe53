"""A window of tmux with a pane for each rank of a set, and an attach in each.

The arguments of a server of tmux are for all users of the host to see. So a pane runs a script of ``sh`` with
environment, directory and one command line. It lies in a folder that only this user can enter, in the host's memory,
and removes itself first of all: no secret is in an argument or on a disk.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dbg_client.actions.streams import show_waiting
from dbg_client.core.choose import find
from dbg_client.core.errors import NeedsTarget, NoTerminal, RankEnded
from dbg_client.core.own_process import ATTACH, own_command
from dbg_client.core.patience import WaitingLine, read_in_thread
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import switchboard_to
from dbg_client.core.waiting import open_and_list
from dbg_client.run.tmux import (
    MAX_PANES,
    TmuxPane,
    attach_session,
    open_window,
    plain_name,
)
from dbg_client.words.settings import AttachOptions, BrokerOptions, Tmux
from dbg_dial.files import directory_in_memory
from dbg_wire.errors import BadInput, printable
from dbg_wire.finding.environment import pane_environment
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import unique_target

_SCRIPT = r"""
rm -rf -- "${{0%/*}}"
{directory}
trap : INT
enter='
'
while :; do
    {attach}
    status=$?
    how="ended with status $status"
    [ $status -le 128 ] || [ $status = 130 ] || how="was killed by signal $((status - 128))"
    modes=$(stty -g) || exit
    # What was typed before was meant for the debugger, and is dropped.
    stty -icanon -echo min 0 time 0
    dd bs=65536 count=1 >/dev/null 2>&1
    stty min 1
    printf '\r\ndbg-attach %s %s. Enter attaches again, q closes the pane.\r\n' {title} "$how"
    while :; do
        case $(dd bs=1 count=1 2>/dev/null; echo .) in
        "$enter".) break ;;
        [qQ]. | "$(printf '\004')". | .) exit ;;
        esac
    done
    stty "$modes"
done
"""
"""What a pane runs behind its environment. Ctrl-C is for the attach; a key that is no answer is passed over."""


class TooManyPanes(BadInput):
    """Say that a set has more ranks than one can look at."""

    def __init__(self, target: str, ranks: int) -> None:
        super().__init__(
            f"{printable(target)} has {ranks} ranks, and {MAX_PANES} panes are the most that can be read in a window",
            "name fewer, or ask all of them with where, eval or command",
        )


@dataclass(frozen=True, slots=True)
class PanePlan:
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
    ranks, known = asyncio.run(_find(settings.broker, settings.target))
    panes: list[TmuxPane] = []
    try:
        panes += map(_pane, plan_panes(settings, settings.target, ranks, known))
        session = open_window(settings.target, panes, size)
    except BaseException:
        _remove_scripts(panes)
        raise
    if size is not None:
        attach_session(session)
    return 0


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


def plan_panes(settings: Tmux, text: str, ranks: Sequence[RankInfo], known: Sequence[RankInfo]) -> list[PanePlan]:
    """Return a plan for each rank. Raises RankEnded if all have exited, and TooManyPanes."""
    if all(rank.state is RankState.EXITED for rank in ranks):
        raise RankEnded(ranks[0])
    if len(ranks) > MAX_PANES:
        raise TooManyPanes(text, len(ranks))
    # A pane follows its rank: a running rank shows up when it stops. If all ranks are held, the user means them as they
    # are: a terminal that waits for a stop would wait for ever.
    follow = not all(rank.state is RankState.HELD for rank in ranks)
    return [_plan(settings, rank, known, follow=follow) for rank in ranks]


def _plan(settings: Tmux, rank: RankInfo, known: Sequence[RankInfo], *, follow: bool) -> PanePlan:
    short = unique_target(rank, known)
    # With its job, so that a job which comes later doesn't make it ambiguous.
    target = short if "/" in short else f"{rank.job}/{short}"
    return PanePlan(plain_name(short), (*attach_words(settings.broker, settings.attach, follow=follow), "--", target))


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
        ("--verbose", settings.verbose),
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


def _pane(plan: PanePlan) -> TmuxPane:
    """Return a pane with its script written. Raises BadInput where that can't be."""
    script = pane_environment(os.environ) + _SCRIPT.format(
        directory=_to_directory(),
        attach=shlex.join(own_command(ATTACH, plan.words)),
        title=shlex.quote(plan.title),
    )
    try:
        path = directory_in_memory(os.environ) / "pane"
        path.write_text(script, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise _no_file(error) from None
    return TmuxPane(plan.title, ("sh", str(path)))


def _no_file(error: OSError) -> BadInput:
    return BadInput(f"no file can be made for a pane ({error.strerror})", "set TMPDIR to another directory")


def _remove_scripts(panes: Sequence[TmuxPane]) -> None:
    for pane in panes:
        shutil.rmtree(Path(pane.command[-1]).parent, ignore_errors=True)


def _to_directory() -> str:
    """Return the line that goes to the present directory, empty where that was removed."""
    try:
        return f"cd -- {shlex.quote(str(Path.cwd()))}"
    except OSError:
        return ""
