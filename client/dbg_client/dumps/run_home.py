"""What the home of a broker keeps of a run that is gone: the hang that its output tells of, and the audit log. Pure."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_wire.errors import printable

AUDIT_NAME = "audit.jsonl"
"""What the names of audit logs begin with; older ones have a number behind it."""

MAX_EVIDENCE = 40
"""Lines of an output's hang that are told: a verdict has fewer, and stacks may follow it."""

MAX_ENTRIES = 8
"""Entries of an audit log that are told, the newest ones."""

MAX_LINE = 1000
"""Characters of one line."""

_HANG = re.compile(
    r"dbg-attach: (?P<head>no rank of (?P<job>\S+) (?:has moved for|moves, and) .*"
    r"|\S+ of (?P<late>\S+) times out in .*)"
)
_OTHER = re.compile(r"^dbg-attach: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldHang:
    """A hang that a run has written into its job's output: its first line, and the verdict below that."""

    job: str
    head: str
    lines: tuple[str, ...]

    def verdict(self, further: Sequence[str]) -> Verdict:
        """Return it as a verdict, with further lines; how sure it was can't be read from its words."""
        sentence, *evidence = self.lines or (self.head,)
        prefix = f"{self.job}: "
        return Verdict(
            kind=VerdictKind.UNKNOWN,
            job=self.job,
            sentence=sentence.removeprefix(prefix),
            evidence=(*(line.strip() for line in evidence), f"the run's output tells it: {self.head}", *further),
        )


def hang_in(text: str) -> ToldHang | None:
    """Return the last hang that a job's output tells of; None if it tells of none."""
    lines = text.split("\n")
    for number in range(len(lines) - 1, -1, -1):
        found = _HANG.match(lines[number].rstrip("\r"))
        if found is not None:
            told: list[str] = []
            # A verdict ends with what to type, and then the job's own lines go on.
            for line in lines[number + 1 : number + 1 + MAX_EVIDENCE]:
                if not line.strip() or line.startswith("try: ") or _OTHER.match(line) or (told and line[:1] != " "):
                    break
                told.append(printable(line.rstrip("\r"), MAX_LINE))
            job = found["job"] or found["late"]
            return ToldHang(job=printable(job), head=printable(found["head"], MAX_LINE), lines=tuple(told))
    return None


def audit_lines(logs: Iterable[bytes], job: str) -> list[str]:
    """Return what audit logs tell of a job: who ended or stopped ranks of it; the newest entries."""
    name = json.dumps(job).encode()
    found = [entry for log in logs for line in log.split(b"\n") if name in line for entry in _entries(line, job)]
    return [text for _, text in sorted(found)[-MAX_ENTRIES:]]


def _entries(line: bytes, job: str) -> list[tuple[float, str]]:
    try:
        entry = json.loads(line)
        if entry["job"] != job:
            return []
        at, text = float(entry["at"]), _said(entry)
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, OSError):
        return []
    return [(at, f"{moment}  {text}")] if text else []


def _said(entry: dict[str, object]) -> str:
    """Return what an entry tells that may have changed a job's fate; empty for anything else."""
    words = {name: printable(str(entry.get(name, "")), 200) for name in ("what", "action", "ranks", "terminal", "text")}
    who = f" by {words['terminal']}" if words["terminal"] else ""
    if words["what"] == "interrupt" or words["action"] in ("kill", "interrupt", "continue"):
        return f"{words['action'] or words['what']} {words['ranks']}{who}"
    return ""
