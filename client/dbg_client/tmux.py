"""``tmux``: opens one window of tmux with a pane for each rank of a set, and attaches in each pane.

A tmux server has the environment of the shell that started the server, maybe days ago. So each pane gets this process's
variables. A token is not passed, because all users of the host can see tmux's arguments.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial

from dbg_client.core.choose import find
from dbg_client.core.errors import NeedsTarget, RankEnded
from dbg_client.core.own_process import ATTACH, own_command
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import open_and_list, switchboard_to
from dbg_client.core.wait_progress import WaitingLine, read_in_thread
from dbg_client.shell.streams import show_waiting
from dbg_client.verbs.option import Operands
from dbg_client.verbs.verb import Verb
from dbg_command.targets import unique_target
from dbg_dial.home import TOKEN, TOKEN_FILE
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.ranks import RankInfo, RankState

MAX_PANES = 16
"""Maximum panes in one window: on a large screen of 320 x 80 each pane has 80 x 19, and a debugger needs that much."""


class Tmux(Verb):
    """Attach to each rank of a target in a pane of tmux."""

    name = "tmux"
    example = "tmux 0-3"
    operands = Operands.TARGET

    target: str | None = None

    def run(self) -> int:
        """Open the window in the current session of tmux, or else in a new session; return the exit status of tmux.

        Raises DbgError before a window is opened.
        """
        if self.target is None:
            raise NeedsTarget(self.name, self.example)
        given = given_environment(os.environ)
        ranks, known = asyncio.run(_find(self, self.target))
        options = [f"--timeout={self.broker.timeout}"]
        if self.broker.address is not None:
            options.append(f"--broker={self.broker.address}")
        attaches = attach_words(self.target, ranks, known)
        panes = [[*given, *own_command(ATTACH, [*options, *argv])] for argv in attaches]
        start = "new-window" if os.environ.get("TMUX") else "new-session"
        try:
            return subprocess.call(["tmux", *window(start, panes)])
        except OSError as error:
            raise BadInput(f"tmux can't be run ({error.strerror or type(error).__name__})", "install it") from None


def given_environment(environ: Mapping[str, str]) -> list[str]:
    """Return tmux options that pass our variables to a pane. Raises BadInput for a token, which all users would see."""
    if TOKEN in environ and TOKEN_FILE not in environ:
        raise BadInput(
            f"{TOKEN} would be in a command line, which every user of this host can read", f"set {TOKEN_FILE}"
        )
    ours = (name for name in environ if name.startswith("DBG_") and name != TOKEN)
    return [word for name in ours for word in ("-e", f"{name}={environ[name]}")]


async def _find(verb: Tmux, text: str) -> tuple[Sequence[RankInfo], Sequence[RankInfo]]:
    """Return the ranks of the target, and all known ranks."""
    target = await read_in_thread(partial(read_target, text, os.environ), verb.broker.timeout)
    switchboard = switchboard_to(verb.broker.address, verb.broker.timeout)
    try:
        await open_and_list(switchboard, WaitingLine(show_waiting))
    finally:
        await switchboard.close()
    known = switchboard.directory.ranks
    return find(target, known).ranks, known


def attach_words(text: str, ranks: Sequence[RankInfo], known: Sequence[RankInfo]) -> list[list[str]]:
    """Return the arguments of dbg-attach for each of these ranks, which are selected by the target ``text``.

    Raises RankEnded if all ranks have exited, and BadInput if there are more than MAX_PANES ranks.
    """
    if all(rank.state is RankState.EXITED for rank in ranks):
        raise RankEnded(ranks[0])
    if len(ranks) > MAX_PANES:
        raise BadInput(
            f"{printable(text)} has {len(ranks)} ranks, and more than {MAX_PANES} panes can't be read in a window",
            "name fewer, or ask all of them with where, eval or command",
        )
    # With --follow a pane attaches whenever its rank stops. If all ranks are held, the panes attach at once instead:
    # a held rank waits for other ranks, so a terminal that waits for its stop would wait forever.
    follow = [] if all(rank.state is RankState.HELD for rank in ranks) else ["--follow"]
    targets = [unique_target(rank, known) for rank in ranks]
    # Include the job, because a job that starts later could make the target ambiguous.
    whole = [target if "/" in target else f"{rank.job}/{target}" for rank, target in zip(ranks, targets, strict=True)]
    return [[*follow, "--", target] for target in whole]


def window(start: str, panes: Sequence[Sequence[str]]) -> list[str]:
    """Return the arguments with which tmux opens these panes, tiled in order; ``start`` opens the first one."""
    arguments: list[str] = []
    for pane in panes:
        # Each split halves a pane. Without a new layout after each split, the sixth pane would be too small.
        command = "split-window" if arguments else start
        arguments += [command, *map(literal, pane), ";", "select-layout", "tiled", ";"]
    return arguments[:-1]


def literal(argument: str) -> str:
    """Escape a semicolon at the end of an argument, because tmux would end the command there."""
    return f"{argument[:-1]}\\;" if argument.endswith(";") else argument
