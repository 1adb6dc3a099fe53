"""``dbg-attach adopt``: turns processes into ranks, and shows the target of each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_client.adopt.one import adopt_one
from dbg_client.adopt.payload import Answer, Outcome
from dbg_client.adopt.process import Candidate, NoSuchProcess, all_pids, find_python, mappings, read_process, topmost
from dbg_client.core.switchboard import Switchboard, open_and_list, switchboard_to
from dbg_client.core.wait_progress import WaitingLine, read_in_thread
from dbg_client.shell.output import confirms
from dbg_client.shell.streams import notify, show_waiting, write_result
from dbg_client.views.ages import show_age
from dbg_client.views.table import padded
from dbg_command.targets import unique_target
from dbg_dial.endpoint import RENDEZVOUS_FILE
from dbg_dial.find import Opening
from dbg_dial.home import BROKER, CA, HOME, TOKEN_FILE, home_directory
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

if TYPE_CHECKING:
    from dbg_client.adopt.verb import Adopt

AT_ONCE = 4
"""Maximum concurrent adoptions: each stops its process for some tenths of a second, and its gdb occupies a core."""

SOME_FAILED, ALL_FAILED = 6, 1
"""Exit statuses if some or all processes have not become ranks."""


async def adopt(settings: Adopt) -> int:
    """Turn the selected processes into ranks, and return the exit status. Raises DbgError.

    Connects to the broker first, so without a broker no process is touched.
    """
    switchboard = switchboard_to(settings.broker.address, settings.broker.timeout)
    adopting = _Adopting(settings, switchboard)
    try:
        return await adopting.run()
    finally:
        await switchboard.close()


def find_mine() -> list[Candidate]:
    """Return this user's processes that look like ranks, in rank order. Blocks while it reads ``/proc``."""
    own = os.geteuid()
    seen = {pid: found for pid in all_pids() if (found := read_process(pid)) is not None and found.uid == own}
    return [candidate for candidate in topmost(seen, os.environ) if _runs_python(candidate.pid)]


def _runs_python(pid: int) -> bool:
    try:
        return find_python(pid, mappings(pid)) is not None
    except OSError:
        # Keep the process as a candidate: the attempt to adopt it will report why its files can't be read.
        return True


def rank_variables(broker: str | None, environ: Mapping[str, str], opening: Opening) -> dict[str, str]:
    """Return the variables that lead an adopted rank to this terminal's broker. Raises BadInput.

    ``opening`` is called with the path of the home before this function reads the home.
    """
    found = {}
    address = broker or environ.get(BROKER)
    if address:
        found[BROKER] = address
    if environ.get(CA):
        found[CA] = str(Path(environ[CA]).absolute())
    has_home = False
    try:
        home = home_directory(environ)
        found[HOME] = home
        opening(home)
        has_home = (Path(home) / RENDEZVOUS_FILE).exists()
    except BadInput:
        if not address:
            raise
    if not has_home and environ.get(TOKEN_FILE):
        found[TOKEN_FILE] = str(Path(environ[TOKEN_FILE]).absolute())
    return found


class _Adopting:
    """The adoption of one or more processes, over one connection."""

    def __init__(self, settings: Adopt, switchboard: Switchboard) -> None:
        self._settings = settings
        self._switchboard = switchboard
        self._directory = switchboard.directory
        self._line = WaitingLine(show_waiting)
        self._variables: Mapping[str, str] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._failures: list[int] = []
        """Exit statuses of processes that have not become ranks."""

    async def run(self) -> int:
        find_variables = partial(rank_variables, self._settings.broker.address, os.environ)
        self._variables = await read_in_thread(find_variables, self._settings.broker.timeout)
        await open_and_list(self._switchboard, self._line)
        pids = await self._pids()
        if pids is None:
            return 1
        if not pids:
            return 0
        async with self._line.says(lambda: _what_happens(pids)):
            answers = await asyncio.gather(*(self._adopt(pid) for pid in pids))
        await self._list({pid: answer for pid, answer in zip(pids, answers, strict=True) if answer is not None})
        if 0 < len(self._failures) < len(pids):
            return SOME_FAILED
        statuses = set(self._failures) or {0}
        return statuses.pop() if len(statuses) == 1 else ALL_FAILED

    async def _pids(self) -> list[int] | None:
        """Return the processes to adopt, or None if the user does not agree."""
        if not self._settings.mine:
            return list(dict.fromkeys(map(int, self._settings.pids)))
        found = await asyncio.to_thread(find_mine)
        new = [candidate for candidate in found if not candidate.is_rank]
        if not found:
            what = "is a Python program that a launcher started"
            raise NoSuchProcess("none of your processes here", what, "`dbg-attach adopt PID` adopts any Python program")
        if len(new) < len(found):
            ranks = len(found) - len(new)
            notify(f"{ranks} of your processes here {'are ranks' if ranks > 1 else 'is a rank'} already.")
        if not new:
            return []
        if not self._settings.yes:
            notify(table(new).rstrip("\n"))
            sentence = f"adopt --mine would make ranks of {len(new)} processes, and there is no terminal to ask"
            if not await confirms(f"Make {'ranks of these' if len(new) > 1 else 'a rank of this one'}?", sentence):
                return None
        return [candidate.pid for candidate in new]

    async def _adopt(self, pid: int) -> Answer | None:
        """Turn a process into a rank and return its answer. If that fails, report the reason and return None."""
        async with self._turns:
            try:
                return await asyncio.to_thread(adopt_one, pid, self._variables)
            except DbgError as error:
                self._failures.append(error.exit_status)
                notify(f"dbg-attach: {error}")
                return None

    async def _list(self, answers: Mapping[int, Answer]) -> None:
        """Print a line for each rank once the broker lists it, and report ranks that it does not list in time."""
        left = dict(answers)

        def all_listed() -> bool | None:
            for pid, answer in list(left.items()):
                rank = self._directory.by_key.get(answer.key)
                if self._directory.complete and rank is not None and rank.state in LIVE_STATES:
                    del left[pid]
                    write_result(line_for(pid, answer, rank, self._directory.ranks))
            return None if left else True

        try:
            async with self._line.says(lambda: f"waiting until the broker lists {_processes(len(left))}"):
                await self._switchboard.until(all_listed, self._settings.broker.timeout, notify)
        except TimeoutError:
            for pid in left:
                self._failures.append(ALL_FAILED)
                broker = printable(self._switchboard.url)
                what = f"process {pid} is now a rank, but the broker at {broker} does not list it"
                notify(f"dbg-attach: {what}; see the process's stderr for why it can't connect")


def line_for(pid: int, answer: Answer, rank: RankInfo, known: Sequence[RankInfo]) -> str:
    """Return the line that shows a rank's target. Pure."""
    target = printable(unique_target(rank, known))
    what = "is a rank already" if answer.outcome is Outcome.ALREADY else "adopted"
    who = f"{printable(rank.address)} (pid {pid})"
    sentence = f"{who} {what}" if answer.outcome is Outcome.ALREADY else f"{what} {who}"
    no_break_in = "" if answer.main else "  (`interrupt` works once its main thread returns from C code)"
    return f"{sentence}: dbg-attach where {target}{no_break_in}\n"


def table(candidates: Sequence[Candidate]) -> str:
    """Return the candidates as a table. Pure."""
    rows = [("RANK", "PID", "AGE", "SCRIPT")]
    rows += [(str(one.rank), str(one.pid), show_age(one.age), printable(one.script)) for one in candidates]
    return "".join(f"{'  '.join(row).rstrip()}\n" for row in padded(rows))


def _processes(count: int) -> str:
    return f"{count} processes" if count > 1 else "the process"


def _what_happens(pids: Sequence[int]) -> str:
    return f"making ranks of {len(pids)} processes" if len(pids) > 1 else f"making a rank of process {pids[0]}"
