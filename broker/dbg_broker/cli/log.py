"""``dbg-broker log``: the audit log of a home in readable form."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from dbg_broker.cli.console import home_of, print_line
from dbg_broker.home.private_files import open_home
from dbg_broker.journal.audit import AUDIT_FILE, audit_files
from dbg_command.audit import MAX_LINE, AuditEntry, AuditEvent, decode_entry
from dbg_command.command_line import read_duration
from dbg_wire.errors import BadSecretFile, printable

MAX_SECONDS = 10 * 365 * 86400.0
"""Maximum of --since, in seconds: ten years."""

CHECK_SECONDS = 1.0
"""Interval between two checks of the file, in seconds. The file is checked, because the kernel does not report what
another host writes into a shared home.
"""

MAX_SHOWN = 200
"""Maximum length of a question in a line, in characters; ``--json`` shows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Filters and form of the output; ``since`` is in seconds before now, or None for all."""

    job: str | None = None
    since: float | None = None
    follow: bool = False
    as_json: bool = False


def show_log(home: Path, options: LogOptions, print_line: Callable[[str], None]) -> int:
    """Print the entries and, with ``follow``, new ones as they arrive, until Ctrl-C. Return the exit status.

    Raise BadSecretFile for a file that can't be read, and FileTimeout for one whose file server does not answer.
    """
    start = None if options.since is None else time.time() - options.since
    for line in _lines(home, follow=options.follow):
        entry = decode_entry(line)
        if entry is None or not _is_wanted(entry, options.job, start):
            continue
        print_line(line.decode("utf-8", "replace").rstrip("\n") if options.as_json else shown(entry))
    return 0


def shown(entry: AuditEntry) -> str:
    """Format an entry as one line. A terminal chooses its own name, so the name is in quotes."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    parts = [when, entry.what.value, entry.action, _where(entry), _who(entry)]
    if entry.what is AuditEvent.CUT:
        parts.append(f"({entry.count} entries were lost)")
    elif entry.count > 1:
        parts.append(f"({entry.count} times)")
    text = f": {printable(entry.text, MAX_SHOWN)}" if entry.text else ""
    return " ".join(word for word in parts if word) + text


def _where(entry: AuditEntry) -> str:
    if not entry.job:
        return ""
    return f"at {printable(entry.job)}/{printable(entry.ranks)}" if entry.ranks else f"at {printable(entry.job)}"


def _who(entry: AuditEntry) -> str:
    parts = []
    if entry.role:
        parts.append(f"by a {printable(entry.role)}")
    if entry.token:
        parts.append(f"({printable(entry.token)})")
    if entry.terminal:
        parts.append(_quoted(entry.terminal))
    if entry.address:
        parts.append(f"from {printable(entry.address)}")
    return " ".join(parts)


def _quoted(name: str) -> str:
    """Return a name in quotes. Escape the quotes in the name, so that the name can't look like text of the broker."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def _is_wanted(entry: AuditEntry, job: str | None, start: float | None) -> bool:
    return (job is None or entry.job == job) and (start is None or entry.at >= start)


def _lines(home: Path, *, follow: bool) -> Iterator[bytes]:
    """Yield the lines of all files, the oldest first; with ``follow`` also new lines, forever."""
    for path in audit_files(home):
        if path.name != AUDIT_FILE:
            with _open(path) as file:
                yield from _rest(file)
    path = home / AUDIT_FILE
    while True:
        try:
            file = _open(path)
        except FileNotFoundError:
            if not follow:
                return
            time.sleep(CHECK_SECONDS)
            continue
        with file:
            while True:
                yield from _rest(file)
                if not follow:
                    return
                if _is_replaced(path, file.fileno()):
                    break
                time.sleep(CHECK_SECONDS)


def _rest(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that have not been read yet; the broker appends whole lines in one write."""
    yield from iter(partial(file.readline, 2 * MAX_LINE), b"")


def _open(path: Path) -> BinaryIO:
    """Open a file of the log. Raise FileNotFoundError, and BadSecretFile if it can't be read."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(path))} can't be read ({error.strerror})", "move it away; the broker starts a new one"
        ) from error


def _is_replaced(path: Path, descriptor: int) -> bool:
    """Return True if the path now belongs to another file: then the open file gets no more lines."""
    try:
        return path.stat().st_ino != os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("--follow", action="store_true", help="print new entries as they arrive, until Ctrl-C")
    parser.add_argument("--job", metavar="JOB", help="only this job")
    parser.add_argument("--since", metavar="S", help="only the last S seconds, or e.g. 30m, 2h or 7d")
    parser.add_argument("--json", action="store_true", help="print the lines as they are in the file")


def run(given: argparse.Namespace) -> int:
    """Run the verb, and return the exit status. Raise DbgError."""
    since = None if given.since is None else read_duration(given.since, "--since", MAX_SECONDS)
    options = LogOptions(job=given.job, since=since, follow=given.follow, as_json=given.json)
    return show_log(open_home(home_of(given)), options, print_line)
