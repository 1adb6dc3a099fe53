"""Make a report: ask the ranks for their stacks, put everything into one text, and write it to a file if asked to."""

from __future__ import annotations

import os
import platform
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from dbg_client.after.report_file import MAX_REPORT, TITLE, case_lines
from dbg_client.after.report_text import Asked, Terminal, show_report
from dbg_client.core.asking import Asker
from dbg_client.core.errors import CantWrite
from dbg_client.core.patience import show_nobody
from dbg_client.verbs.verb import Asking
from dbg_client.verbs.where import Where
from dbg_client.why.collective_matching import match_collectives
from dbg_client.why.collectives_table import show_collectives
from dbg_client.why.explain import Case
from dbg_client.why.questions import BETWEEN_SECONDS, about, gather_case, ranks_of_runs
from dbg_client.why.show import show_verdicts
from dbg_dial.files import write_whole
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

MAX_EVIDENCE = MAX_REPORT // 2
"""Bytes of what ``why`` reads again; people read less than the other half."""


async def make_report(
    target: str | None,
    asking: Asking,
    now: float,
    *,
    case: Case | None = None,
    output: Sequence[str] = (),
) -> str:
    """Return the report about these ranks; ``now`` is wall-clock seconds. Nothing is evaluated in any rank.

    The ranks are asked why they don't go on, unless ``case`` has told it.
    """
    asker, ranks, known = asking.asker, asking.ranks, asking.known
    verdict = ""
    evidence: Sequence[str] = ()
    collectives: Sequence[str] = ()
    try:
        if case is None and ranks:
            # A hang can't be told from a part of a run's ranks.
            everybody = ranks_of_runs(ranks, known)
            case = await gather_case(asker, everybody, longest=BETWEEN_SECONDS)
    except DbgError as error:
        verdict = f"not known: {error}\n"
    if case is not None:
        evidence, case = case_lines(case, MAX_EVIDENCE)
        found = about(case.explanation(), ranks, [one.rank for one in case.looks[-1].everybody])
        verdict = show_verdicts(found.verdicts, color=False)
        matched = match_collectives(case.looks[-1].everybody)
        if any(one.groups for one in matched):
            collectives = show_collectives(matched, color=False).rstrip("\n").split("\n")
    text = show_report(
        Asked(
            ranks=ranks,
            welcome=asking.welcome,
            url=asking.url,
            stacks=await _stacks(asker, ranks, known),
            verdict=verdict,
            target=target,
            now=now,
            moment=time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now)),
            collectives=collectives,
            output=output,
            known=known,
        ),
        Terminal(python=platform.python_version(), system=f"{platform.system()} {platform.release()}"),
    )
    if evidence:
        text += f"\n{TITLE}\n" + "".join(f"  {line}\n" for line in evidence)
    return text


async def _stacks(asker: Asker, ranks: Sequence[RankInfo], known: Sequence[RankInfo]) -> str:
    # Of a job that has ended the last stacks are still readable.
    asked = [rank for rank in ranks if rank.state in LIVE_STATES] or list(ranks)
    if not asked:
        return ""
    try:
        return (await Where().ask(Asking(asker=asker, ranks=asked, known=known, show=show_nobody))).text()
    except DbgError as error:
        return f"not known: {error}\n"


def refuse_existing(path: str) -> None:
    """Raise BadInput if there is a file of this name. Blocks."""
    if os.path.lexists(path):
        raise BadInput(f"{printable(path)} is there already", "name another file, or add -y to replace it")


def write_report(path: str, text: str, *, replace_it: bool) -> None:
    """Write the report to a new file that only the user may read. Blocks. Raises BadInput and CantWrite."""
    try:
        if replace_it and os.path.lexists(path):
            _replace(Path(path), text)
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


def _replace(path: Path, text: str) -> None:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise CantWrite(str(path), "it is no regular file", "-o")
    # A file beside it takes its place, so that nobody who may read the old one reads this one.
    write_whole(path, text)
