"""``report``: all that is known of ranks as one text, for a colleague or a bug report."""

from __future__ import annotations

import asyncio
import os
import platform
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dbg_client.after.case_file import CaseFile, cleaned, looks_of
from dbg_client.after.report_text import report_text
from dbg_client.core.errors import CantWrite
from dbg_client.verbs.option import Operands, Option
from dbg_client.verbs.verb import PLAIN, Asking, Style, WaitingVerb
from dbg_client.views.ages import show_duration
from dbg_client.why.explain import Case, explain
from dbg_client.why.questions import BETWEEN_SECONDS, about, gather_case, ranks_of_runs
from dbg_dial.files import write_whole
from dbg_wire import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from dbg_wire.errors import BadInput, DbgError, printable


class Report(WaitingVerb):
    """Print all that is known of ranks, or write it to ``path``."""

    name = "report"
    example = "report -o hang.txt"
    operands = Operands.MAYBE_TARGET
    usual = "all"
    without_target = True

    path: Annotated[str | None, Option("-o", metavar="FILE", help="write it to a new file")] = None

    @property
    def with_exited(self) -> bool:
        return True

    def begin(self) -> int | None:
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
class ReportAnswer:
    """A report, or where it was written."""

    report: str
    hint: str = ""

    @property
    def status(self) -> int:
        return 0

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        return {}

    def text(self, style: Style = PLAIN) -> str:
        return self.report

    def document(self) -> object:
        return {"schema": 1, "report": self.report}


async def make_report(
    target: str | None, asking: Asking, now: float, *, case: Case | None = None, output: Sequence[str] = ()
) -> str:
    """Return the report about the runs of these ranks; ``now`` is wall-clock seconds. It evaluates nothing in a rank.

    The ranks are asked why they don't go on, unless ``case`` has told it.
    """
    # A hang can't be told from a part of a run's ranks.
    ranks, problem = ranks_of_runs(asking.ranks, asking.known), "no rank to ask"
    try:
        if case is None and ranks:
            case, _ = await gather_case(asking.asker, ranks, longest=BETWEEN_SECONDS)
    except DbgError as error:
        problem = f"not known: {error}"
    if case is not None:
        ranks = [one.rank for one in case.looks[-1].everybody]
    moment = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    saved = CaseFile(
        about=f"dbg-attach report{f' about {printable(target)}' if target is not None else ''}, {moment}",
        now=case.now if case is not None else now,
        ranks=tuple(ranks),
        looks=looks_of(case) if case is not None else (),
        versions=tuple(_versions(asking)),
        output=tuple(output),
        problem=problem,
    )
    return await asyncio.to_thread(_text, cleaned(saved), asking)


def _text(saved: CaseFile, asking: Asking) -> str:
    case = saved.case
    found = about(explain(case.looks, case.now), asking.ranks, saved.ranks) if case.looks else None
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
    """Raise BadInput if there is a file of this name. Blocks."""
    if os.path.lexists(path):
        raise BadInput(f"{printable(path)} is there already", "name another file, or add -y to replace it")


def write_report(path: str, text: str, *, replace_it: bool) -> None:
    """Write the report to a new file that only the user may read. Blocks. Raises BadInput and CantWrite."""
    try:
        if replace_it and os.path.lexists(path):
            if not stat.S_ISREG(Path(path).lstat().st_mode):
                raise CantWrite(path, "it is no regular file", "-o")
            # A file beside it takes its place, so that nobody who may read the old one reads this one.
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
        # Half a report on a full disk would only be mistaken for one.
        Path(path).unlink(missing_ok=True)
        raise
