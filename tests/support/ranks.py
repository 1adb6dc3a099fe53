"""Ranks without torch, started with a launcher's environment variables, and the terminal's view of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbg_client.core.switchboard import switchboard_to
from dbg_client.views.list import list_document
from dbg_command.targets import parse_target, select
from dbg_dial.tcp import within
from dbg_wire.records.ranks import RankState
from tests.support.broker import Wrap
from tests.support.processes import Child, Processes, run_command
from tests.support.time_unit import seconds

NEVER_BOUND_PORTS = itertools.count(20001)
"""Ports named in MASTER_PORT, so that each launch is a job of its own; nothing ever listens on or connects to them."""


def rank_environment(
    rank: int, local_rank: int, world_size: int, local_world_size: int, master_port: int
) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(master_port),
    }


def start_ranks(
    processes: Processes,
    home: Path,
    script_text: str,
    n: int,
    *,
    env: Mapping[str, str] | None = None,
    name: str = "rank",
    wrap: Wrap = list,
    first: int = 0,
    world_size: int | None = None,
    master_port: int | None = None,
) -> list[Child]:
    """Start ``n`` ranks that run ``script_text`` and find the broker through ``DBG_HOME=home``; return without waiting.

    Each rank has a HOME of its own, ``<home>/homes/<name><rank>``, in which a test can look for files that should not
    be there. Rank r is logged as ``<name><r>``. A job over several hosts needs one call for each host: with the host's
    ``wrap``, the number of its ``first`` rank, the ``world_size`` of the job, and one ``master_port`` for all calls.
    """
    script = home / f"{name}_script.py"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Ranks that an earlier call has started may be reading the same script just now.
    if not script.exists() or script.read_text() != script_text:
        script.write_text(script_text)
    port = next(NEVER_BOUND_PORTS) if master_port is None else master_port
    ranks = []
    for local_rank in range(n):
        rank = first + local_rank
        own_home = home / "homes" / f"{name}{rank}"
        own_home.mkdir(parents=True, exist_ok=True)
        variables = {
            **os.environ,
            "DBG_HOME": str(home),
            "HOME": str(own_home),
            **rank_environment(rank, local_rank, world_size or n, n, port),
            **(env or {}),
        }
        ranks.append(processes.start(f"{name}{rank}", wrap([sys.executable, str(script)]), env=variables, cwd=own_home))
    return ranks


def attach_command(*arguments: str) -> list[str]:
    """Return the command line of ``dbg-attach`` as installed beside this Python."""
    return [str(Path(sys.executable).with_name("dbg-attach")), *arguments]


def attach(
    home: Path, *arguments: str, env: Mapping[str, str] | None = None, timeout: float | None = None, wrap: Wrap = list
) -> subprocess.CompletedProcess[str]:
    """Run ``dbg-attach`` without a terminal until it ends, and return status, stdout and stderr."""
    environ = {**os.environ, "DBG_HOME": str(home), **(env or {})}
    limit = seconds(30) if timeout is None else timeout
    return run_command(wrap(attach_command(*arguments)), environ, limit)


def attach_list(home: Path, *arguments: str, wrap: Wrap = list) -> list[dict[str, Any]]:
    """Return the ranks of ``dbg-attach list --json``; fail if the command fails."""
    result = attach(home, "list", *arguments, "--json", wrap=wrap)
    if result.returncode != 0:
        raise AssertionError(f"dbg-attach list ended with status {result.returncode}: {result.stderr}")
    ranks: list[dict[str, Any]] = json.loads(result.stdout)["ranks"]
    return ranks


def wait_until(
    home: Path,
    holds: Callable[[list[dict[str, Any]]], bool],
    what: str,
    *,
    listing: Sequence[str] = (),
    timeout: float | None = None,
    wrap: Wrap = list,
) -> list[dict[str, Any]]:
    """Return the listed ranks as soon as ``holds`` is true of them; fail with all of them after ``timeout`` seconds.

    Here each change is looked at, over one connection; on another host the command is run again and again.
    """
    limit = seconds(20) if timeout is None else timeout
    if wrap is list:
        holding, listed = asyncio.run(_watched(home, holds, limit, with_exited="--all" in listing))
    else:
        holding, listed, deadline = False, [], time.monotonic() + limit
        while not holding and time.monotonic() < deadline:
            completed = attach(home, "list", *listing, "--json", wrap=wrap)
            listed = json.loads(completed.stdout)["ranks"] if completed.stdout else []
            holding = holds(listed)
    if holding:
        return listed
    seen = ", ".join(f"{rank['address']} {rank['state']}" for rank in listed) or "no rank at all"
    raise AssertionError(f"never saw {what}: {seen}")


async def _watched(
    home: Path, holds: Callable[[list[dict[str, Any]]], bool], limit: float, *, with_exited: bool
) -> tuple[bool, list[dict[str, Any]]]:
    """Watch the list until something holds of it; return whether it does, and the last list."""
    switchboard = switchboard_to(None, seconds(10), {**os.environ, "DBG_HOME": str(home)})
    directory = switchboard.directory
    seen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    listed: list[dict[str, Any]] = []

    def look() -> None:
        nonlocal listed
        if not directory.complete or seen.done():
            return
        there = [rank for rank in directory.ranks if rank.state is not RankState.EXITED]
        ordered = list(select(parse_target("all"), there, any_job=True).ranks) if there else []
        if with_exited:
            ordered += [rank for rank in directory.ranks if rank.state is RankState.EXITED]
        listed = json.loads(json.dumps(list_document(ordered)))["ranks"]
        try:
            if holds(listed):
                seen.set_result(True)
        except Exception as error:
            seen.set_exception(error)

    directory.on_change = look
    await switchboard.dial()
    try:
        return await within(limit, seen), listed
    except TimeoutError:
        return False, listed
    finally:
        await switchboard.close()


def states(listed: list[dict[str, Any]]) -> dict[int, str]:
    return {rank["rank"]: rank["state"] for rank in listed}


def wait_until_states(home: Path, wanted: Mapping[int, str], timeout: float | None = None) -> list[dict[str, Any]]:
    """Return the listed ranks once exactly the wanted ranks are listed, each in its wanted state."""
    return wait_until(home, lambda listed: states(listed) == wanted, str(wanted), timeout=timeout)


def ask(home: Path, *arguments: str) -> dict[str, Any]:
    result = attach(home, *arguments, "--json")
    if not result.stdout:
        raise AssertionError(f"dbg-attach {arguments} ended with status {result.returncode}: {result.stderr}")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def texts(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each group of an answer of :func:`ask`, by the group's ranks."""
    return {group["ranks"]: group["text"] for group in document["groups"]}


def wait_until_stopped(home: Path, n: int, timeout: float | None = None, *, wrap: Wrap = list) -> list[dict[str, Any]]:
    """Return the stopped ranks as soon as there are ``n`` of them; fail as :func:`wait_until` does."""

    def stopped(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [rank for rank in listed if rank["state"] == "stopped"]

    what = f"{n} stopped ranks"
    return stopped(wait_until(home, lambda listed: len(stopped(listed)) >= n, what, timeout=timeout, wrap=wrap))
