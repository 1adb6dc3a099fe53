"""Files and directories that ``why`` is given: what is opened, how much of it is read, and what it is taken for.

Blocks. Anybody may have written these files: nothing in them is run, and whatever can't be read is told in a sentence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

from dbg_client.after.case_file import BEGINNING, CantReadReport, CaseFile, read_report
from dbg_client.after.recorder_dumps import RankDump
from dbg_client.core.choose import MAX_WORLD
from dbg_wire.errors import printable
from dbg_wire.limits import KIB
from dbg_wire.recorder.entries import WRONG_FORM, read_dump
from dbg_wire.recorder.plain_pickle import NotPlain

MAX_FILE = 32 * 1024 * KIB
"""Bytes of a file that is read: a recorder of 100,000 entries with their stacks writes 20 MB, a report has 2 MB."""

NOTHING_KNOWN = "is neither a dump of torch's flight recorder nor a report of dbg-attach"

MAX_FILES = 10_000
"""Files of one directory that are looked at: two for each rank of a job of thousands."""

MAX_DEPTH = 3
"""Directories within each other that are entered: those of a home are two deep."""

_RANK = re.compile(r"rank[_-]?([0-9]{1,9})(?![0-9])")
_LAST_NUMBER = re.compile(r"(?<![0-9])([0-9]{1,9})(?:\.[A-Za-z]+)*\Z")
"""Where a name tells the rank: ``nccl_trace_rank_3``, ``rank3.pkl``; or else ``trace.3``."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@dataclass(slots=True)
class Found:
    """What was found: the newest dump of each rank with its path, reports, and sentences on what could not be read.

    ``others`` counts files of directories that are none of these.
    """

    dumps: dict[int, tuple[RankDump, str]] = field(default_factory=dict)
    reports: list[tuple[CaseFile, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    others: int = 0


class _Unreadable(Exception):
    """Why a file is not read, as the end of a sentence."""


class _NoFile(Exception):
    """What a path is that is no regular file, as the end of a sentence."""


def find_in(words: Sequence[str], progress: Callable[[int], None] = lambda count: None) -> Found:
    """Return what these files are, and those in these directories; ``progress`` takes how many have been read."""
    found = Found()
    count = 0
    for word in words:
        if os.path.isdir(word):  # noqa: PTH112 - a word may be any text
            names, left_out = _listed(word)
            if left_out:
                found.notes.append(f"{printable(word)} has more than {MAX_FILES:,} files; {left_out} are left out")
        else:
            names, left_out = [word], ""
        for path in names:
            _take(found, path, is_named=path is word)
            count += 1
            progress(count)
    return found


def _listed(directory: str) -> tuple[list[str], str]:
    """Return the files in a directory and those below it, by name; and whether some are left out."""
    paths: list[str] = []
    for path in _walk(directory, MAX_DEPTH):
        if len(paths) == MAX_FILES:
            return sorted(paths), "the others"
        paths.append(path)
    return sorted(paths), ""


def _walk(directory: str, depth: int) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                # A link to a directory may lead round in a circle.
                if entry.is_dir(follow_symlinks=False):
                    if depth > 1:
                        yield from _walk(entry.path, depth - 1)
                else:
                    yield entry.path
    except OSError:
        # What can't be entered has no file that could be read; the directory itself is told by its emptiness.
        return


def _take(found: Found, path: str, *, is_named: bool) -> None:
    try:
        with _opened(path) as file:
            _take_open(found, path, file, is_named=is_named)
    except _NoFile as error:
        if is_named:
            found.problems.append(f"{printable(path)} {error}")
        else:
            found.others += 1
    except (_Unreadable, NotPlain, CantReadReport) as error:
        found.problems.append(f"{printable(path)} {error}")
    except OSError as error:
        found.problems.append(f"{printable(path)} can't be read ({error.strerror or type(error).__name__})")
    except WRONG_FORM:
        if is_named:
            found.problems.append(f"{printable(path)} is no dump of torch's flight recorder")
        else:
            found.others += 1


def _take_open(found: Found, path: str, file: BinaryIO, *, is_named: bool) -> None:
    """Take a file by its name or its first bytes."""
    head = file.read(len(BEGINNING))
    if head == BEGINNING:
        _take_report(found, read_report(head + _rest(file)), path, is_named=is_named)
    elif head[:1] in (b"\x80", b"{"):
        _take_dump(found, path, head + _rest(file), os.fstat(file.fileno()).st_mtime)
    elif is_named:
        raise _Unreadable("is empty" if not head else NOTHING_KNOWN)
    else:
        found.others += 1


def _take_report(found: Found, report: CaseFile, path: str, *, is_named: bool) -> None:
    """Take a report; of several ones of a job in directories the newest one counts."""
    before = next((one for one in found.reports if one[0].job == report.job), None)
    if before is None or is_named:
        found.reports.append((report, path))
        return
    older = (report, path) if before[0].now >= report.now else before
    found.notes.append(f"{printable(older[1])} is an older report of the same job, and is left out")
    if older is before:
        found.reports[found.reports.index(before)] = (report, path)


def _take_dump(found: Found, path: str, data: bytes, written: float) -> None:
    dump = read_dump(data)
    rank = rank_in(path)
    if rank is None:
        raise _Unreadable("has no rank's number in its name, such as trace_rank_3")
    before = found.dumps.get(rank)
    if before is not None:
        older = path if before[0].written >= written else before[1]
        found.notes.append(f"rank {rank} has left two dumps, and the newer one counts: {printable(older)} is left out")
        if older == path:
            return
    found.dumps[rank] = RankDump(rank=rank, dump=dump, written=written), path


def rank_in(path: str) -> int | None:
    """Return the rank that the name of a dump ends with; None if it has none, or one that nobody can believe."""
    name = os.path.basename(path)  # noqa: PTH119 - a word may be any text
    found = _RANK.findall(name) or _LAST_NUMBER.findall(name)
    number = int(found[-1]) if found else MAX_WORLD
    return number if number < MAX_WORLD else None


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a regular file. Raise _Unreadable and _NoFile."""
    try:
        # A device may do something when it is opened, and a pipe waits for a writer.
        _require_regular(os.stat(path).st_mode)  # noqa: PTH116 - a word may be any text
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise _Unreadable(f"can't be read ({error.strerror or type(error).__name__})") from None
    except ValueError:
        raise _Unreadable("is no name of a file") from None
    with os.fdopen(descriptor, "rb") as file:
        _require_regular(os.fstat(descriptor).st_mode)
        yield file


def _rest(file: BinaryIO) -> bytes:
    data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise _Unreadable(f"is larger than {MAX_FILE // 1024 // KIB} MiB, and so neither a dump nor a report")
    return data


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise _NoFile(f"is {_KINDS.get(stat.S_IFMT(mode), 'no file')}, and no file with a dump or report")
