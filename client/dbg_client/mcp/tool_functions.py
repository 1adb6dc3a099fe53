"""What the tools do with the ranks: each takes what an agent has given, and returns a text."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbg_client.api.broker import AsyncBroker
from dbg_client.api.ranks import AsyncRanks
from dbg_client.core.choose import there
from dbg_client.core.directory import rank_order
from dbg_client.core.roll_call import call_roll
from dbg_client.core.switchboard import WATCHER
from dbg_client.mcp.rest import with_tools
from dbg_client.questions.verbs import RankList
from dbg_client.views.missing import absent_only
from dbg_client.views.naming import Naming
from dbg_client.words.settings import DEFAULT_SECONDS
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.inspection import MAX_VARIABLES
from dbg_wire.records.ranks import CRASH, DIED, RankInfo, RankState, describe_exit

Given = Mapping[str, Any]
"""What an agent has given, by name."""

START_SECONDS = 1.0
"""Seconds in which a command that can't be started has usually ended."""

MAX_WAIT = 300.0
"""Seconds that one call may wait; agents give a call up after some minutes."""


async def start_run(command: Sequence[str], *, directory: str | None, stop_at: str | None, post_mortem: bool) -> str:
    """Start a command under ``dbg-broker run``, with a session of its own, and say where its output is.

    The command goes on when this process ends. Raises BadInput for a command or directory that can't be used.
    """
    if not command:
        raise BadInput("command is empty", "give a program and its arguments")
    if directory is not None and not await asyncio.to_thread(os.path.isdir, directory):
        raise BadInput(f"there is no directory {printable(directory)!r}", "name one of this host")
    if any("\0" in word for word in (*command, directory or "", stop_at or "")):
        raise BadInput("an argument of run has a NUL character", "leave it out")
    output = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="dbg-run-")) / "output.txt"
    words = [_broker(), "run", f"--output={output}"]
    words += [f"--stop-at={stop_at}"] if stop_at else []
    words += ["--post-mortem"] if post_mortem else []
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            "--",
            *command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, UnicodeEncodeError) as error:
        raise BadInput(f"dbg-broker can't be started: {printable(str(error), 200)}", "change the arguments") from None
    told = await _first_words(process)
    if process.returncode:
        return f"it ended with status {process.returncode}: {told or 'it said nothing'}"
    return f"started (pid {process.pid}); what it prints is in {output}"


async def _first_words(process: asyncio.subprocess.Process) -> str:
    ending = asyncio.ensure_future(process.wait())
    await asyncio.wait([ending], timeout=START_SECONDS)
    if not ending.done() or process.stderr is None:
        ending.cancel()
        return ""
    return printable((await process.stderr.read(4096)).decode("utf-8", "replace").strip(), 500)


def _broker() -> str:
    beside = [Path(program).with_name("dbg-broker") for program in (sys.argv[0], sys.executable)]
    found = next((str(path) for path in beside if path.exists()), None) or shutil.which("dbg-broker")
    if found is None:
        raise BadInput("there is no dbg-broker beside dbg-attach", "install dbg-broker on this host")
    return found


def _chosen(broker: AsyncBroker, given: Given, usual: str = "all") -> AsyncRanks:
    return broker.job(given.get("job"))[str(given.get("ranks", given.get("rank", usual)))]


async def list_ranks(broker: AsyncBroker, given: Given) -> str:
    known = broker.ranks
    found = _chosen(broker, given).list() if "ranks" in given or "job" in given else there(known)
    if not found:
        return "no rank is connected"
    shown = tuple(sorted(found, key=rank_order))
    return RankList(shown, tuple(absent_only(call_roll(known))), known).table(color=False, fold=True)


async def show_where(broker: AsyncBroker, given: Given) -> str:
    ranks = _chosen(broker, given)
    return (await ranks.where(threads=given.get("threads", False), timeout=given.get("seconds"))).tree()


async def say_why(broker: AsyncBroker, given: Given) -> str:
    return with_tools(str(await _chosen(broker, given).why()), may_change=broker.role != WATCHER)


async def say_slow(broker: AsyncBroker, given: Given) -> str:
    found = await _chosen(broker, given).slow(float(given.get("seconds", DEFAULT_SECONDS)))
    return with_tools(str(found), may_change=broker.role != WATCHER)


async def show_collectives(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given).collectives())


async def evaluate(broker: AsyncBroker, given: Given) -> str:
    return str(
        await _chosen(broker, given).eval(
            given["expression"],
            frame=given.get("frame", ""),
            live=given.get("live", False),
            stats=given.get("stats", False),
            timeout=given.get("seconds"),
        )
    )


async def run_command(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given).command(given["command"], timeout=given.get("seconds")))


async def break_in(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given).interrupt(timeout=given.get("seconds")))


async def let_go_on(broker: AsyncBroker, given: Given) -> str:
    return str(await _chosen(broker, given, "stopped").resume())


async def wait_for_stop(broker: AsyncBroker, given: Given) -> str:
    seconds = float(given.get("seconds", 30.0))
    if not 0 < seconds <= MAX_WAIT:
        raise BadInput(f"seconds are {seconds:g}", f"give up to {MAX_WAIT:g}")
    wanted = str(given.get("ranks", "all"))
    if given.get("each", False):
        stopped = await broker.job(given.get("job"))[wanted].wait_for_each(seconds)
    elif "job" in given:
        stopped = (await broker.job(given["job"])[wanted].wait(seconds),)
    else:
        stopped = (await broker.wait(wanted, seconds),)
    several = [rank.rank for rank in stopped] if len(stopped) > 1 else stopped[0].address
    where = await broker.job(stopped[0].job)[several].where()
    return "\n".join([*_lines(stopped, _stop_of), where.tree()])


async def show_variables(broker: AsyncBroker, given: Given) -> str:
    ranks = _chosen(broker, given)
    begin = int(given.get("from", 0))
    found = await ranks.variables(
        given.get("of", ""),
        scope=given.get("scope", "locals"),
        begin=begin,
        frame=given.get("frame", ""),
        timeout=given.get("seconds"),
    )
    more = f"\n[there may be more: ask with from={begin + len(found)}]" if len(found) == MAX_VARIABLES else ""
    return f"{found}{more}" if found else "nothing"


async def show_source(broker: AsyncBroker, given: Given) -> str:
    ranks = _chosen(broker, given)
    file, line, around = given.get("file", ""), given.get("line"), max(0, given.get("around", 10))
    if not file:
        file = _present_file(ranks)
        line = line or next(rank.where.line for rank in ranks.list() if rank.where is not None)
    first, count = (1, 0) if line is None else (max(1, line - around), 2 * around + 1)
    source = await ranks.source(file, begin=first, count=count)
    return f"{source.path}, {source.total} lines\n{source}"


async def set_breakpoints(broker: AsyncBroker, given: Given) -> str:
    ranks, seconds = _chosen(broker, given), given.get("seconds")
    if "line" not in given:
        return str(await ranks.breakpoints(timeout=seconds))
    file, line = given.get("file") or _present_file(ranks), given["line"]
    if given.get("clear", False):
        return str(await ranks.clear_breakpoint(file, line, timeout=seconds))
    return str(
        await ranks.set_breakpoint(
            file,
            line,
            condition=given.get("condition", ""),
            hits=given.get("hits", ""),
            log=given.get("log", ""),
            timeout=seconds,
        )
    )


def _present_file(ranks: AsyncRanks) -> str:
    """Return the file in which all of these ranks that are stopped stand. Raises BadInput."""
    files = {rank.where.file for rank in ranks.list() if rank.where is not None}
    if len(files) != 1:
        stand = f"these ranks stand in {len(files)} files" if files else "none of these ranks is stopped in one"
        raise BadInput(f"no file is given, and {stand}", "give file")
    return files.pop()


async def list_crashes(broker: AsyncBroker, given: Given) -> str:
    known = [rank for rank in broker.ranks if given.get("job") in (None, rank.job)]
    kept = [rank for rank in known if rank.state is RankState.STOPPED and rank.reason == CRASH]
    ended = [rank for rank in known if rank.state is RankState.EXITED and _ended_badly(rank)]
    lines = [*_lines(kept, _stop_of), *_lines(ended, describe_exit)]
    return "\n".join(lines) or "no rank is kept after a crash, and none has ended badly"


def _lines(ranks: Sequence[RankInfo], say: Callable[[RankInfo], str]) -> list[str]:
    """Return a line for ranks of one job of which the same is to say."""
    alike: defaultdict[tuple[str, str], list[RankInfo]] = defaultdict(list)
    for rank in sorted(ranks, key=rank_order):
        alike[rank.job, say(rank)].append(rank)
    naming = Naming(ranks)
    lines = []
    for (job, said), group in alike.items():
        names = naming.names(group)
        who = group[0].full_address if len(group) == 1 else names if "/" in names else f"{job}/{names}"
        lines.append(f"{who} {said}" if len(group) == 1 else f"{len(group)} ranks {who} {said}")
    return lines


async def start_program(broker: AsyncBroker, given: Given) -> str:
    return await start_run(
        given["command"],
        directory=given.get("directory"),
        stop_at=given.get("stop_at"),
        post_mortem=given.get("post_mortem", True),
    )


def _ended_badly(rank: RankInfo) -> bool:
    return rank.exit not in (0, None) or rank.reason == DIED


def _stop_of(rank: RankInfo) -> str:
    where = f" in {rank.where.function} at {rank.where.file}:{rank.where.line}" if rank.where is not None else ""
    detail = f": {rank.detail}" if rank.detail else ""
    return f"stopped ({rank.reason}){where}{detail}"
