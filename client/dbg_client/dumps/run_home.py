"""What the audit log in the home of a broker tells of a run that is gone. Pure."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from dbg_wire.errors import printable

AUDIT_NAME = "audit.jsonl"
"""What the names of audit logs begin with; older ones have a number behind it."""

MAX_ENTRIES = 8
"""Entries of an audit log that are told, the newest ones."""


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
