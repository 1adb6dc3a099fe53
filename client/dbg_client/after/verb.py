"""``report``: all that is known of ranks as one text, for a colleague or a bug report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from dbg_client.after.report import make_report, refuse_existing, write_report
from dbg_client.verbs.option import Operands, Option
from dbg_client.verbs.verb import PLAIN, Asking, Style, WaitingVerb
from dbg_wire.errors import printable


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
