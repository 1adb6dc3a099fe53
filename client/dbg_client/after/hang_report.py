"""The report of a hang beside the output of its job: where it is written, and what each rank has printed last.

Blocks, and raises no error for what a rank or its files do: a report that lacks something is better than none.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dbg_client.after.report import write_report
from dbg_wire.errors import BadInput, printable
from dbg_wire.rank_set import format_ranks

MAX_REPORTS = 20
"""Reports beside one output; a job that hangs more often replaces the last one."""

TAIL_BYTES = 256 * 1024
"""Bytes of an output's end that are read."""

LINES, LINES_OF_RANK = 40, 5
"""Last lines of the whole output, and of each rank, that are told."""

MAX_LINE = 200
"""Characters of one line."""

_OF_RANK = re.compile(
    r"\[(?:default|rank)?(?P<torchrun>[0-9]{1,7})\]:|"  # torchrun --tee 3, and messages of torch itself
    r"\[[0-9]+,(?P<mpirun>[0-9]{1,7})\]<[a-z]+>:|"  # mpirun --tag-output
    r"(?P<srun>[0-9]{1,7}): "  # srun --label
)
"""What launchers put before the lines of a rank."""


def report_path(output: str, number: int) -> Path:
    """Return where the ``number``-th report of a job is, whose output is in this file."""
    path = Path(output)
    stem = path.name.removesuffix(".out")
    return path.with_name(f"{stem}.hang{f'-{number}' if number > 1 else ''}.txt")


def write_hang_report(output: str, text: str) -> str:
    """Write the next report beside an output, and return where it is. Raise CantWrite."""
    for number in range(1, MAX_REPORTS):
        path = str(report_path(output, number))
        with suppress(BadInput):
            # A report of an earlier run stays.
            write_report(path, text, replace_it=False)
            return path
    path = str(report_path(output, MAX_REPORTS))
    write_report(path, text, replace_it=True)
    return path


def last_lines(output: str) -> list[str]:
    """Return the last lines that a job has printed: by rank where its launcher tells the rank, or else of all."""
    lines = _tail(output).split("\n")
    own = _lines_of_ranks(lines)
    return by_rank(own) if own else _shown(lines, LINES)


def _lines_of_ranks(lines: Sequence[str]) -> dict[int, list[str]]:
    """Return the lines of each rank without their prefix; nothing if not several ranks have lines of their own."""
    own: defaultdict[int, list[str]] = defaultdict(list)
    for line in lines:
        found = _OF_RANK.match(line)
        if found is not None:
            own[int(next(filter(None, found.groups())))].append(line[found.end() :].strip())
    return dict(own) if len(own) > 1 else {}


def by_rank(own: Mapping[int, Sequence[str]]) -> list[str]:
    """Return the last lines of each rank below its number; equal ones are told once."""
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, some in own.items():
        alike[tuple(_shown(some, LINES_OF_RANK))].append(rank)
    told = []
    for lines, numbers in sorted(alike.items(), key=lambda item: min(item[1])):
        told += [f"{format_ranks(numbers)}:", *(f"  {line}" for line in lines)]
    return told


def _shown(lines: Sequence[str], most: int) -> list[str]:
    # A progress bar is drawn over itself: what stands behind its last return is what people see.
    seen = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return [printable(line, MAX_LINE) for line in seen if line.strip()][-most:]


def _tail(path: str) -> str:
    """Return the end of a regular file; empty for anything else, which might wait for a writer."""
    with suppress(OSError, ValueError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                file.seek(max(0, status.st_size - TAIL_BYTES))
                return file.read(TAIL_BYTES).decode("utf-8", "replace")
    return ""
