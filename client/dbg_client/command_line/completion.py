"""``dbg-attach --complete``, which a shell calls at each Tab, and ``dbg-attach completion``, which sets up the shell.

Completions with verbs and options are written before the broker is asked, so that a shell has them if the broker fails.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from dbg_client.command_line.reading import parser_of, verb_first
from dbg_client.verbs.option import Operands
from dbg_client.verbs.table import VERBS
from dbg_client.verbs.verb import Verb
from dbg_command.command_line import FILES, SHELLS, complete_option, completion_script, lines, options_of
from dbg_wire.errors import BadInput, DbgError, printable

TARGET_WORDS: tuple[tuple[str, str], ...] = (
    ("all", "all ranks"),
    ("stopped", "ranks that are stopped"),
    ("held", "ranks that wait for other ranks"),
    ("crashed", "ranks that are kept after an exception"),
    ("running", "ranks that run"),
)

_VERBS = [(row.name, row.help) for row in VERBS]
_WITH_TARGET = frozenset(
    {
        *(Operands.TARGET, Operands.MAYBE_TARGET, Operands.MAYBE_FILES, Operands.TWO_RUNS),
        *(Operands.EXPRESSION, Operands.COMMAND, Operands.PROGRAM),
    }
)

GRACE_SECONDS = 0.5
"""Seconds after the broker's timeouts until this process is forced to exit, in case a C call hangs."""


def complete_words(argv: Sequence[str]) -> tuple[list[str], bool]:
    """Return a line for each possible completion of the last word, and whether targets are possible, too."""
    *before, current = argv or [""]
    row, _, behind = verb_first(before)
    verb = row.load()
    parser = parser_of(verb)
    found = complete_option(parser, before, current)
    if found is not None:
        return found, False
    if not before:
        return lines([*_VERBS, *TARGET_WORDS], current), True
    with_value = {flag for option in options_of(parser) if option.nargs is None for flag in option.option_strings}
    if any(not word.startswith("-") and previous not in with_value for previous, word in pairwise(["", *behind])):
        return ([FILES] if verb.operands is Operands.MAYBE_FILES else []), False
    if verb.operands is Operands.MAYBE_FILES and current.startswith(("/", "./", "../", "~")):
        return [FILES], False
    if verb.operands is Operands.JOB:
        return ([FILES] if "--" in behind else []), False
    if verb.operands is Operands.SHELL:
        return lines([(shell, "") for shell in verb.operands.value.split("|")], current), False
    if verb.operands is Operands.VERB:
        return lines(_VERBS, current), False
    if verb.operands not in _WITH_TARGET:
        return [], False
    return lines(TARGET_WORDS, current), True


def complete(argv: Sequence[str]) -> int:
    """Write the possible completions of the last word, a line each, and return 0."""
    found, has_targets = complete_words(argv)
    _write(found)
    if has_targets:
        _write_targets(argv[-1] if argv else "")
    return 0


class Completion(Verb):
    """Print a shell script that completes verbs, options and live ranks."""

    name = "completion"
    example = "completion bash"
    operands = Operands.SHELL

    shell: str = ""

    def check(self) -> None:
        if self.shell not in SHELLS:
            given = f"'{printable(self.shell)}' is not a supported shell"
            what = given if self.shell else "completion needs a shell"
            raise BadInput(what, f"use {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")

    def run(self) -> int:
        sys.stdout.write(completion_script("dbg-attach", self.shell))
        sys.stdout.flush()
        return 0


def _write_targets(current: str) -> None:
    with Path(os.devnull).open("w") as nowhere:
        # Exit after this time: nothing else can end a C call that hangs, and this process has no state to clean up.
        faulthandler.dump_traceback_later(CONNECT_SECONDS + ANSWER_SECONDS + GRACE_SECONDS, exit=True, file=nowhere)
        try:
            for find in (remembered_targets, live_ranks):
                _write(lines(find(os.environ), current))
        finally:
            faulthandler.cancel_dump_traceback_later()


def _write(found: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.flush()


CONNECT_SECONDS = 1.0
"""Timeout for connecting to the broker, in seconds.

A distant host answers within some tenths of a second. If a host is silent, the shell waits for the whole timeout.
"""

ANSWER_SECONDS = 2.0
"""Timeout for the broker's list, in seconds.

Thousands of ranks take about 0.1 s in the broker and 0.1 s in the network.
"""

MAX_TARGETS = 2000
"""Maximum number of targets to offer: nobody would read more, and a shell sorts them each time."""

_SAFE = re.compile(r"[A-Za-z0-9._:/@?\[\]-]+")
"""Pattern of a target that is safe to offer.

The names of hosts and jobs come from the network, and the shell inserts a completed target into its command line.
"""

_GONE = ("exited", "lost")


def remembered_targets(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the groups that this terminal remembers, each with its size. Blocks while it reads a small file."""
    from dbg_client.core.remembered_groups import find_remembered_groups

    memory = find_remembered_groups(environ)
    for name, keys in memory.load().items() if memory is not None else ():
        if _SAFE.fullmatch(name):
            yield name, f"{len(keys)} of the last answer"


def live_ranks(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the targets of ranks and jobs that responding brokers list; nothing if no broker responds.

    Blocks for CONNECT_SECONDS and ANSWER_SECONDS at most, for each broker.
    """
    from dbg_dial.find import DiscoveryOptions, find_broker

    with contextlib.suppress(DbgError, OSError):
        reach = find_broker(DiscoveryOptions(role="driver", argument_name="--broker"), None, environ)
        import asyncio  # not at the top: asyncio and dbg_dial take longer to load than everything else

        from dbg_dial.rank_list import fetch_rank_list

        found: dict[str, Mapping[str, Any]] = {}
        for route in reach.routes():
            with contextlib.suppress(DbgError, OSError, ValueError, KeyError, TypeError):
                look = fetch_rank_list(route, "completion", connect_seconds=CONNECT_SECONDS, seconds=ANSWER_SECONDS)
                listed = asyncio.run(look)
                found.update((rank["identity"]["key"], rank) for rank in listed)
        with contextlib.suppress(KeyError, TypeError):
            yield from list(targets_of(found.values()))


def targets_of(ranks: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the address of each present rank, with its job if there are several, then all ranks of each job."""
    there = [rank for rank in ranks if rank["state"] not in _GONE]
    jobs = list(dict.fromkeys(map(_job, there)))
    several = len(jobs) > 1
    counts = Counter((_job(rank), rank["address"]) for rank in there)
    for rank in there[:MAX_TARGETS]:
        address = f"{_job(rank)}/{rank['address']}" if several else str(rank["address"])
        if counts[_job(rank), rank["address"]] > 1:
            address = f"{address}@{rank['process']['pid']}"
        if _SAFE.fullmatch(address):
            yield address, _place(rank)
    for job in jobs if several else []:
        if _SAFE.fullmatch(f"{job}/all"):
            yield f"{job}/all", "all ranks of this job"


def _job(rank: Mapping[str, Any]) -> str:
    return str(rank["identity"]["job"])


def _place(rank: Mapping[str, Any]) -> str:
    where = rank.get("halt", {}).get("where")
    if not isinstance(where, Mapping):
        return printable(str(rank["state"]))
    return printable(f"{rank['state']} {str(where['file']).rpartition('/')[2]}:{where['line']}")
