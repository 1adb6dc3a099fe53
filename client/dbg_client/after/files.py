"""``why`` for a job that has ended: finds, reads and explains the files that it left. No broker is used.

Blocks. These files are untrusted: nothing in them is executed, and each unreadable file is reported in a sentence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dbg_client.after.case_file import BEGINNING, CantReadReport, CaseFile, read_report
from dbg_client.after.recorder_dumps import RankDump, explain_dumps
from dbg_client.core.choose import MAX_WORLD
from dbg_client.shell.output import written
from dbg_client.shell.streams import columns_of_stdout, notify, write_result
from dbg_client.verbs.table import is_target
from dbg_client.verbs.verb import Style
from dbg_client.why.explain import Explanation, SavedJob
from dbg_client.why.verb import Why, WhyAnswer
from dbg_client.why.verdict import worst_first
from dbg_command.targets import parse_target
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.limits import KIB
from dbg_wire.rank_set import format_ranks
from dbg_wire.recorder.entries import WRONG_FORM, read_dump
from dbg_wire.recorder.plain_pickle import NotPlain

MAX_FILE = 32 * 1024 * KIB
"""Maximum size of a file, in bytes: a dump of 100,000 entries with their stacks has 20 MB, a report 2 MB."""

MAX_FILES, MAX_DEPTH = 10_000, 3
"""Maximum number of files in one directory, and maximum depth of directories.

The number is enough for two files from each rank of the largest job.
"""

MAX_PROBLEMS = 10
"""Maximum number of unreadable files that are reported one by one."""

_RANK = re.compile(r"rank[_-]?([0-9]{1,9})(?![0-9])")
_LAST_NUMBER = re.compile(r"(?<![0-9])([0-9]{1,9})(?:\.[A-Za-z]+)*\Z")
"""Last number in a file name, as in ``trace.3``.

It is the rank, unless the name has a number after the word ``rank``, as in ``nccl_trace_rank_3``.
"""


@dataclass(slots=True)
class FoundFiles:
    """Files that were found: the newest dump of each rank with its path, reports, and sentences about other files."""

    dumps: dict[int, tuple[RankDump, str]] = field(default_factory=dict)
    reports: list[tuple[CaseFile, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class NothingToRead(DbgError):
    """Raised when no file contains evidence of a hang."""


class _Unreadable(Exception):
    """Raised when a file is not read; the text is the end of a sentence."""


class _Foreign(_Unreadable):
    """Raised when a file is neither a dump nor a report. In a directory such files are ignored."""


def show_files(settings: Why) -> int | None:
    """Show the verdicts from files; return the exit status, or None if the command names ranks.

    Raises NothingToRead and BadInput.
    """
    files = files_meant(settings.files, settings.target)
    if files and settings.deadline is not None:
        raise BadInput("--wait is for ranks, but a file does not change", "omit it")
    if not files:
        return None
    found = find_in(files)
    explanations = list(_explanations(found))
    if not explanations:
        raise NothingToRead(_nothing(found, files))
    for sentence in _notes(found):
        notify(f"dbg-attach: {sentence}")
    verdicts = tuple(worst_first([verdict for one in explanations for verdict in one.verdicts]))
    asked, answered = sum(one.asked for one in explanations), sum(one.answered for one in explanations)
    both = Explanation(verdicts=verdicts, asked=asked, answered=answered, missing=(), is_settled=True)
    answer = WhyAnswer(None, both)
    style = Style(color=settings.output.color, columns=columns_of_stdout())
    write_result(written(answer, settings.output.format, style))
    return answer.status


def saved_job(names: tuple[str, ...], target: str | None) -> SavedJob | None:
    """Return the job in the named report, or None if the command names ranks. Raises NothingToRead and BadInput."""
    files = files_meant(names, target)
    if not files:
        return None
    found = find_in(files)
    if len(found.reports) != 1 or found.dumps:
        raise NothingToRead(_nothing(found, files) if found.problems else "a page can show only one dbg-attach report")
    ((report, _),) = found.reports
    (explanation,) = _explanations(found)
    return SavedJob(report.about, report.now, report.ranks, report.snapshots[-1].answers, explanation)


def files_meant(files: tuple[str, ...], target: str | None) -> tuple[str, ...]:
    """Return the files that a command names, empty if it names ranks. Raises BadInput.

    If a word could be a target but a file of that name exists, the file is used; a line reports that.
    """
    if target is not None and _is_there(target):
        if is_target(target):
            where = "type this in another directory"
            notify(f"dbg-attach: {printable(target)} is used as a file, because it exists; for ranks, {where}")
        files = (target,)
    if len(files) == 1 and "/" not in files[0] and not _is_there(files[0]):
        # The word may be a misspelled target: then this call raises BadInput.
        parse_target(files[0])
    return files


def _is_there(name: str) -> bool:
    try:
        return os.path.lexists(name)
    except ValueError:
        return False


def _explanations(found: FoundFiles) -> Iterator[Explanation]:
    if found.dumps:
        yield explain_dumps([dump for dump, _ in found.dumps.values()])
    for report, _ in found.reports:
        explanation = report.case.explanation()
        # Suggest no commands, because the ranks no longer exist.
        verdicts = tuple(replace(verdict, next=None) for verdict in explanation.verdicts)
        yield replace(explanation, verdicts=verdicts)


def _nothing(found: FoundFiles, files: Sequence[str]) -> str:
    if found.problems:
        return "; ".join(found.problems[:MAX_PROBLEMS])
    named = printable(" ".join(files), 200)
    return f"{named} has neither a flight-recorder dump of torch nor a report of dbg-attach"


def _notes(found: FoundFiles) -> Iterator[str]:
    if found.dumps:
        ranks = format_ranks(found.dumps)
        several = len(found.dumps) > 1
        yield f"read {f'{len(found.dumps)} dumps' if several else 'the dump'} of rank{'s' * several} {ranks}"
    for report, path in found.reports:
        yield f"{printable(path)} is a {printable(report.about.removeprefix('dbg-attach '), 200)}"
    yield from found.notes[:MAX_PROBLEMS]
    yield from (f"{problem}; it is ignored" for problem in found.problems[:MAX_PROBLEMS])
    if len(found.problems) > MAX_PROBLEMS:
        yield f"{len(found.problems) - MAX_PROBLEMS} more files can't be read"


# ------------------------------------------------------------------------------------------------------------- finding


def find_in(names: Sequence[str]) -> FoundFiles:
    """Read these files, and the files in these directories."""
    found = FoundFiles()
    for name in names:
        is_folder = os.path.isdir(name)  # noqa: PTH112 - a word may be any text
        paths = _below(name) if is_folder else [name]
        if len(paths) > MAX_FILES:
            found.notes.append(f"{printable(name)} has more than {MAX_FILES:,} files; the others are ignored")
        for path in sorted(paths[:MAX_FILES]):
            _take(found, path, is_named=not is_folder)
    return found


def _below(directory: str) -> list[str]:
    """Return the files in and below a directory, at most MAX_FILES + 1."""
    paths: list[str] = []
    # Don't follow links, which may form a cycle; skip directories without access.
    for folder, folders, names in os.walk(directory, followlinks=False):
        if folder.removeprefix(directory).count("/") >= MAX_DEPTH - 1:
            folders.clear()
        paths += [os.path.join(folder, name) for name in names]  # noqa: PTH118
        if len(paths) > MAX_FILES:
            break
    return paths[: MAX_FILES + 1]


def _take(found: FoundFiles, path: str, *, is_named: bool) -> None:
    try:
        data, written = _read(path)
        if data.startswith(BEGINNING):
            _take_report(found, read_report(data), path, is_named=is_named)
        else:
            _take_dump(found, path, data, written)
    except _Foreign as error:
        if is_named:
            found.problems.append(f"{printable(path)} {error}")
    except (_Unreadable, NotPlain, CantReadReport) as error:
        found.problems.append(f"{printable(path)} {error}")


def _read(path: str) -> tuple[bytes, float]:
    """Return the content of a file that may be a dump or a report, and the time of its last change."""
    try:
        # Check before opening, because opening a device may have effects, and opening a pipe waits for a writer.
        _require_regular(os.stat(path).st_mode)  # noqa: PTH116 - a word may be any text
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _require_regular(status.st_mode)
            head = file.read(len(BEGINNING))
            if head != BEGINNING and head[:1] not in (b"\x80", b"{"):
                known = "is neither a flight-recorder dump of torch nor a report of dbg-attach"
                raise _Foreign(known if head else "is empty")
            data = head + file.read(MAX_FILE + 1)
    except OSError as error:
        raise _Unreadable(f"can't be read ({error.strerror or type(error).__name__})") from None
    except ValueError:
        raise _Unreadable("is not a valid file name") from None
    if len(data) > MAX_FILE:
        raise _Unreadable(f"is larger than {MAX_FILE // 1024 // KIB} MiB, so it is neither a dump nor a report")
    return data, status.st_mtime


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise _Foreign("is not a regular file")


def _take_report(found: FoundFiles, report: CaseFile, path: str, *, is_named: bool) -> None:
    """Add a report; among several reports of one job in directories, keep only the newest."""
    before = next((one for one in found.reports if one[0].job == report.job), None)
    if before is None or is_named:
        found.reports.append((report, path))
        return
    older, newer = sorted((before, (report, path)), key=lambda one: one[0].now)
    found.notes.append(f"{printable(older[1])} is an older report of the same job, and is ignored")
    found.reports[found.reports.index(before)] = newer


def _take_dump(found: FoundFiles, path: str, data: bytes, written: float) -> None:
    try:
        dump = read_dump(data)
    except NotPlain:
        raise
    except WRONG_FORM:
        raise _Foreign("is not a flight-recorder dump of torch") from None
    rank = rank_in(path)
    if rank is None:
        raise _Unreadable("has a name without a rank number; a name such as trace_rank_3 has one")
    before = found.dumps.get(rank)
    if before is not None:
        older = path if before[0].written >= written else before[1]
        found.notes.append(f"rank {rank} has left two dumps; the newer one is used, and {printable(older)} is ignored")
        if older == path:
            return
    found.dumps[rank] = RankDump(rank=rank, dump=dump, written=written), path


def rank_in(path: str) -> int | None:
    """Return the rank at the end of a dump's name, or None if there is no number or an implausible one."""
    name = os.path.basename(path)  # noqa: PTH119 - a word may be any text
    found = _RANK.findall(name) or _LAST_NUMBER.findall(name)
    number = int(found[-1]) if found else MAX_WORLD
    return number if number < MAX_WORLD else None
