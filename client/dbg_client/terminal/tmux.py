"""A window of tmux with a pane for each rank of a set, and an attach in each, by one call of tmux.

A server of tmux has the environment of the shell that started it, days ago perhaps. So each pane gets the variables of
this process, except for a token: the arguments of tmux are for all users of the host to see.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dbg_client.core.choose import find
from dbg_client.core.errors import NeedsTarget, RankEnded
from dbg_client.core.own_process import ATTACH, own_command
from dbg_client.core.patience import WaitingLine, read_in_thread
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import open_and_list, switchboard_to
from dbg_client.shell.streams import show_waiting
from dbg_command.targets import unique_target
from dbg_dial.home import TOKEN, TOKEN_FILE
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import RankInfo, RankState

if TYPE_CHECKING:
    from dbg_client.terminal.verb import Tmux

MAX_PANES = 16
"""Panes in one window: on a large screen of 320 x 80 each has 80 x 19 then, and a debugger can't be read in less."""

MAX_NAME = 40
"""Characters of a window's name: tmux shows several names in its status line."""

_OPTIONS = (
    ("pane-border-status", "top"),
    ("pane-border-format", "#{?pane_active,#[reverse],} #{pane_title} #[default]"),
    # A pane whose session has ended stays, with its last words.
    ("remain-on-exit", "on"),
)


def open_panes(verb: Tmux) -> int:
    """Run tmux, which opens the window in its current session, or else in a new one; return its exit status.

    Raises DbgError, with no window opened.
    """
    if verb.target is None:
        raise NeedsTarget(verb.name, verb.example)
    given = given_environment(os.environ)
    ranks, known = asyncio.run(_find(verb, verb.target))
    begin = "new-window" if os.environ.get("TMUX") else "new-session"
    try:
        return subprocess.call(["tmux", *window(verb, begin, ranks, known, given)])
    except OSError as error:
        raise BadInput(f"tmux can't be run ({error.strerror or type(error).__name__})", "install it") from None


def given_environment(environ: Mapping[str, str]) -> list[str]:
    """Return the options of tmux that give a pane our variables. Raises BadInput for a token, which all would see."""
    if TOKEN in environ and TOKEN_FILE not in environ:
        raise BadInput(
            f"{TOKEN} would be in a command line, which every user of this host can read", f"set {TOKEN_FILE}"
        )
    ours = (name for name in environ if name.startswith("DBG_") and name != TOKEN)
    return [word for name in ours for word in ("-e", f"{name}={environ[name]}")]


async def _find(verb: Tmux, text: str) -> tuple[Sequence[RankInfo], Sequence[RankInfo]]:
    """Return the ranks of the target, and all that are known."""
    target = await read_in_thread(partial(read_target, text, os.environ), verb.broker.timeout)
    switchboard = switchboard_to(verb.broker.address, verb.broker.timeout)
    try:
        await open_and_list(switchboard, WaitingLine(show_waiting))
    finally:
        await switchboard.close()
    known = switchboard.directory.ranks
    return find(target, known).ranks, known


def window(
    verb: Tmux, begin: str, ranks: Sequence[RankInfo], known: Sequence[RankInfo], given: Sequence[str]
) -> list[str]:
    """Return the arguments of tmux for a window with a pane for each rank, tiled in their order.

    Raises RankEnded if all ranks have exited, and BadInput if they are too many.
    """
    if all(rank.state is RankState.EXITED for rank in ranks):
        raise RankEnded(ranks[0])
    text = verb.target or ""
    if len(ranks) > MAX_PANES:
        raise BadInput(
            f"{printable(text)} has {len(ranks)} ranks, and more than {MAX_PANES} panes can't be read in a window",
            "name fewer, or ask all of them with where, eval or command",
        )
    # A pane follows its rank: a running rank shows up when it stops. If all ranks are held, the user means them as they
    # are: a terminal that waits for a stop would wait for ever.
    words = attach_words(verb, follow=not all(rank.state is RankState.HELD for rank in ranks))
    commands = [[begin, "-n", plain_name(text)], *[["split-window"]] * (len(ranks) - 1)]
    arguments: list[str] = []
    for number, (rank, command) in enumerate(zip(ranks, commands, strict=True)):
        short = unique_target(rank, known)
        # With its job, so that a job which comes later doesn't make it ambiguous.
        target = short if "/" in short else f"{rank.job}/{short}"
        attach = map(literal, own_command(ATTACH, [*words, "--", target]))
        arguments += [*command, *given, *attach, ";", "select-pane", "-T", plain_name(short), ";"]
        if number == 0:
            arguments += [word for option in _OPTIONS for word in ("set-option", "-w", *option, ";")]
        # A split halves one pane, so that the sixth would find no room.
        arguments += ["select-layout", "tiled", ";"]
    return arguments[:-1]


def attach_words(verb: Tmux, *, follow: bool) -> list[str]:
    """Return the options that give a pane's dbg-attach these settings."""
    broker, asked = verb.broker, verb.attach
    values = {
        "--timeout": broker.timeout,
        "--broker": broker.address,
        "--escape": "none" if asked.prefix is None else f"^{chr(asked.prefix[0] ^ 0x40)}",
        "--engine": asked.asked_engine,
        "--frame": asked.frame or None,
        "-x": asked.commands,
    }
    flags = {
        "--follow": follow or asked.follow,
        "--watch": asked.mode is Mode.WATCH,
        "--take": asked.mode is Mode.TAKE,
        "--no-status": not asked.status,
        "--no-rc": not asked.rc,
        "--vi": asked.vi,
    }
    given = [f"{name}={value}" for name, value in values.items() if value is not None]
    return given + [name for name, is_on in flags.items() if is_on]


def plain_name(text: str) -> str:
    """Return a name that tmux shows as it is: ``#`` begins a format, and formats run commands."""
    return printable(text, MAX_NAME).replace("#", "?")


def literal(argument: str) -> str:
    """Return an argument that tmux takes as it is: a semicolon at its end would be the end of a command."""
    return f"{argument[:-1]}\\;" if argument.endswith(";") else argument
