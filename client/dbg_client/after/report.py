"""``report``: everything known about ranks as one text, for a colleague or a bug report."""

from __future__ import annotations

import asyncio
import os
import platform
import stat
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dbg_client.after.case_file import CaseFile, cleaned, lines_of, snapshots_of
from dbg_client.core.errors import CantWrite
from dbg_client.verbs.option import Operands, Option
from dbg_client.verbs.verb import PLAIN, Answer, Asking, Style, WaitingVerb
from dbg_client.views.ages import show_duration
from dbg_client.views.list import show_table
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import group_stacks
from dbg_client.views.tree import show_tree
from dbg_client.why.collective_matching import match_collectives
from dbg_client.why.collectives import collective_notes, show_collectives
from dbg_client.why.explain import Explanation, HangEvidence, explain
from dbg_client.why.questions import BETWEEN_SECONDS, about, gather_case, ranks_of_runs
from dbg_client.why.show import show_verdicts
from dbg_command.home import write_whole
from dbg_wire import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.records.ranks import RankInfo, rank_order

MAX_REPORTS = 20
"""Maximum number of reports next to one output file. After that, a new report replaces the one with the highest number.
"""

TAIL_BYTES, MAX_LINES, MAX_LINE = 256 * 1024, 40, 200
"""Bytes to read from an output's end, the number of last lines to show, and the maximum characters of each."""

MAX_SECTION = 96 * 1024
"""Maximum characters of one section: the stacks of a thousand different ranks would be longer than people read."""


class Report(WaitingVerb):
    """Print everything known about ranks, or write it to ``path``."""

    name = "report"
    example = "report -o hang.txt"
    operands = Operands.MAYBE_TARGET
    usual = "all"
    without_target = True

    path: Annotated[str | None, Option("-o", metavar="FILE", help="write it to a new file")] = None

    @property
    def with_exited(self) -> bool:
        return True

    def start(self) -> int | None:
        if self.path is not None and not self.yes:
            refuse_existing(self.path)
        return None

    async def ask(self, asking: Asking) -> ReportAnswer:
        report = await make_report(self.target, asking, time.time())
        if self.path is None:
            return ReportAnswer(report)
        await asyncio.to_thread(write_report, self.path, report, replace_it=self.yes)
        return ReportAnswer("", f"The report is in {printable(self.path)}; read it before you send it to others.")


@dataclass(frozen=True, slots=True)
class ReportAnswer(Answer):
    """Report, or a hint that names the file of the report."""

    report: str
    hint: str = ""

    def text(self, style: Style = PLAIN) -> str:
        return self.report

    def document(self) -> object:
        return {"schema": 1, "report": self.report}


async def make_report(
    target: str | None, asking: Asking, now: float, *, case: HangEvidence | None = None, output: Sequence[str] = ()
) -> str:
    """Return the report on the runs of these ranks; ``now`` is wall-clock seconds. It evaluates nothing in a rank.

    The ranks are asked for their evidence, unless ``case`` already has it.
    """
    # Use whole runs, because some ranks of a run do not suffice to explain a hang.
    ranks, problem = ranks_of_runs(asking.ranks, asking.known), "no rank to ask"
    try:
        if case is None and ranks:
            case, _ = await gather_case(asking.asker, ranks, longest=BETWEEN_SECONDS)
    except DbgError as error:
        problem = f"not known: {error}"
    if case is not None:
        ranks = [one.rank for one in case.snapshots[-1].everybody]
    moment = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    saved = CaseFile(
        about=f"dbg-attach report{f' about {printable(target)}' if target is not None else ''}, {moment}",
        now=case.now if case is not None else now,
        ranks=tuple(ranks),
        snapshots=snapshots_of(case) if case is not None else (),
        versions=tuple(_versions(asking)),
        output=tuple(output),
        problem=problem,
    )
    return await asyncio.to_thread(_text, saved, asking)


def _text(saved: CaseFile, asking: Asking) -> str:
    saved = cleaned(saved)
    case = saved.case
    found = about(explain(case.snapshots, case.now), asking.ranks, saved.ranks) if case.snapshots else None
    return report_text(saved, found)


def _versions(asking: Asking) -> list[str]:
    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    lines = [f"terminal  dbg-attach {RELEASE}, protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}, {system}"]
    url, welcome = printable(asking.url.partition("#")[0]), asking.welcome
    if welcome is not None:
        version = f"{printable(welcome.release)}, protocol {PROTOCOL_MAJOR}.{welcome.minor}"
        where = f"{url}, pid {welcome.pid} on {printable(welcome.host)}, up for {show_duration(welcome.uptime)}"
        lines.append(f"broker    {version}, {where}")
    return lines


def refuse_existing(path: str) -> None:
    """Raise BadInput if the file exists. Blocks."""
    if os.path.lexists(path):
        raise BadInput(f"{printable(path)} already exists", "name another file, or add -y to replace it")


def write_report(path: str, text: str, *, replace_it: bool) -> None:
    """Write the report to a new file that only the user may read. Blocks. Raises BadInput and CantWrite."""
    try:
        if replace_it and os.path.lexists(path):
            if not stat.S_ISREG(Path(path).lstat().st_mode):
                raise CantWrite(path, "it is not a regular file", "-o")
            # Replace the file instead of its content: a user who may read the old file must not read the new report.
            write_whole(Path(path), text)
            return
        _write_new(path, text)
    except FileExistsError:
        refuse_existing(path)
    except OSError as error:
        raise CantWrite(path, error.strerror or type(error).__name__, "-o") from None


def _write_new(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        # After an error such as a full disk, remove the partial file: it would be mistaken for a report.
        Path(path).unlink(missing_ok=True)
        raise


def report_path(output: str, number: int) -> Path:
    """Return the path of the ``number``-th report of a job whose output is in this file."""
    path = Path(output)
    stem = path.name.removesuffix(".out")
    return path.with_name(f"{stem}.hang{f'-{number}' if number > 1 else ''}.txt")


def write_hang_report(output: str, text: str) -> str:
    """Write the next report next to an output file, and return its path. Blocks. Raises CantWrite."""
    for number in range(1, MAX_REPORTS):
        path = str(report_path(output, number))
        with suppress(BadInput):
            # Keep reports of earlier runs.
            write_report(path, text, replace_it=False)
            return path
    path = str(report_path(output, MAX_REPORTS))
    write_report(path, text, replace_it=True)
    return path


def last_lines(output: str) -> list[str]:
    """Return the last lines of a job's output, or none if they cannot be read; never waits for a writer."""
    text = ""
    with suppress(OSError, ValueError):
        descriptor = os.open(output, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                file.seek(max(0, status.st_size - TAIL_BYTES))
                text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    # Progress bars redraw their line: people see only the text after the line's last carriage return.
    seen = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return [printable(line, MAX_LINE) for line in seen if line.strip()][-MAX_LINES:]


# ----------------------------------------------------------------------------------------------------------- the text


def report_text(saved: CaseFile, found: Explanation | None) -> str:
    """Return the text of a report, with its evidence at the end; ``found`` are the verdicts, None without snapshots."""
    ranks = sorted(saved.ranks, key=rank_order)
    sections = [
        ("Versions", [*saved.versions, *_agents(ranks)]),
        ("Ranks", show_table(ranks, saved.now, color=False, fold=True).splitlines() if ranks else ["none"]),
        ("Why it hangs", _lines(show_verdicts(found.verdicts, color=False)) if found is not None else [saved.problem]),
        *_observation_rows(saved),
        ("Last lines of its output", saved.output),
    ]
    text = f"{saved.about}\n"
    for title, lines in sections:
        if lines:
            text += f"\n{title}\n" + "".join(f"  {line}".rstrip() + "\n" for line in _bounded(lines))
    title, *packed = *lines_of(saved), ""
    return f"{text}\n{title}\n" + "".join(f"  {line}\n" for line in packed if line) if title else text


def _observation_rows(saved: CaseFile) -> list[tuple[str, Sequence[str]]]:
    """Return the sections on collectives and stacks of the last snapshot."""
    if not saved.snapshots:
        return []
    matched = match_collectives(saved.case.snapshots[-1].everybody)
    by_rank = list(zip(saved.ranks, saved.snapshots[-1].answers, strict=True))
    stacks, others = group_stacks(by_rank, saved.ranks, collective_notes(matched))
    tree = show_tree(stacks, others, Naming(saved.ranks), color=False)
    has_groups = any(one.groups for one in matched)
    table = _lines(show_collectives(matched, color=False)) if has_groups else []
    return [("Collectives", table), ("Stacks", _lines(tree))]


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n")


def _bounded(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a section, cut after MAX_SECTION characters."""
    left = MAX_SECTION
    for number, line in enumerate(lines):
        left -= len(line) + 3
        if left < 0:
            return [*lines[:number], f"... {len(lines) - number} more lines are left out"]
    return lines


def _agents(ranks: Sequence[RankInfo]) -> list[str]:
    """Return the versions of agents and Pythons, with their ranks if there are several versions."""
    groups: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in filter(lambda rank: not rank.is_classic, ranks):
        groups[f"agent {printable(rank.release)}, Python {printable(rank.python)}"].append(rank)
    naming = Naming(ranks)
    return [
        f"ranks     {text}: {naming.names(some) if len(groups) > 1 else f'all {len(ranks)}'}"
        for text, some in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]
