"""Show why a job did not go on that is over already, from the files that are left of it. No broker is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dbg_client.after.files import Found, find_in
from dbg_client.after.recorder_dumps import explain_dumps
from dbg_client.shell.output import written
from dbg_client.shell.streams import columns_of_stdout, show_waiting, tell, write_result
from dbg_client.verbs.table import is_target
from dbg_client.verbs.verb import Style
from dbg_client.why.explain import Explanation
from dbg_client.why.verb import Why, WhyAnswer
from dbg_client.why.verdict import worst_first
from dbg_command.targets import parse_target
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.rank_set import format_ranks

MAX_PROBLEMS = 10
"""Files that can't be read that are told one by one."""


class NothingToRead(DbgError):
    """Say why no file tells of a hang."""


def files_meant(settings: Why) -> tuple[str, ...]:
    """Return the files that ``why`` is asked about, empty if it is about ranks. Raise BadInput.

    A word that is a file here is no target, even if it could be one, and that is told. Blocks.
    """
    files = settings.files
    target = settings.target
    if target is not None and _is_there(target):
        if is_target(target):
            where = "type this in another directory"
            tell(f"dbg-attach: {printable(target)} is taken for the file of that name; for ranks, {where}")
        files = (target,)
    if len(files) == 1 and "/" not in files[0] and not _is_there(files[0]):
        # It may be a target with a mistake in it.
        parse_target(files[0])
    if files and settings.patience is not None:
        raise BadInput("--wait is for ranks, and a file does not change", "leave it out")
    return files


def _is_there(word: str) -> bool:
    try:
        return os.path.lexists(word)
    except ValueError:
        return False


def show_files(settings: Why) -> int | None:
    """Show the verdicts from the files that are meant; return the exit status, None if ranks are meant. Blocks.

    Raises NothingToRead and BadInput.
    """
    files = files_meant(settings)
    if not files:
        return None
    begun = time.monotonic()
    found = find_in(files, lambda count: _progress(begun, count))
    show_waiting(None)
    told = list(_explanations(found))
    if not told:
        raise NothingToRead(_nothing(found, files))
    for sentence in _notes(found):
        tell(f"dbg-attach: {sentence}")
    verdicts = tuple(worst_first([verdict for one in told for verdict in one.verdicts]))
    asked, answered = sum(one.asked for one in told), sum(one.answered for one in told)
    both = Explanation(verdicts=verdicts, asked=asked, answered=answered, missing=(), is_settled=True)
    answer = WhyAnswer(None, both)
    style = Style(color=settings.output.color, columns=columns_of_stdout())
    write_result(written(answer, settings.output.format, style))
    return answer.status


def _progress(begun: float, count: int) -> None:
    if time.monotonic() - begun > 1:
        show_waiting(f"{count} files are read")


def _explanations(found: Found) -> Iterator[Explanation]:
    if found.dumps:
        yield explain_dumps([dump for dump, _ in found.dumps.values()])
    for report, _ in found.reports:
        explanation = report.case.explanation()
        # The ranks that a command would be about are gone by the time at which a report is read.
        verdicts = tuple(replace(verdict, next=None) for verdict in explanation.verdicts)
        yield replace(explanation, verdicts=verdicts)


def _nothing(found: Found, files: Sequence[str]) -> str:
    if found.problems:
        more = f"; {len(found.problems) - 1} more files can't be read either" if len(found.problems) > 1 else ""
        return f"{found.problems[0]}{more}"
    named = printable(" ".join(files), 200)
    others = f" ({found.others} other files)" if found.others else ""
    return f"{named} has neither a dump of torch's flight recorder nor a report of dbg-attach{others}"


def _notes(found: Found) -> Iterator[str]:
    if found.dumps:
        ranks = format_ranks(found.dumps)
        several = len(found.dumps) > 1
        yield f"read {f'{len(found.dumps)} dumps' if several else 'the dump'} of rank{'s' * several} {ranks}"
    for report, path in found.reports:
        yield f"{printable(path)} is a {printable(report.about.removeprefix('dbg-attach '), 200)}"
    yield from found.notes[:MAX_PROBLEMS]
    yield from (f"{problem}, and is left out" for problem in found.problems[:MAX_PROBLEMS])
    if len(found.problems) > MAX_PROBLEMS:
        yield f"{len(found.problems) - MAX_PROBLEMS} more files can't be read"
