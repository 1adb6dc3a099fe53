"""Groups of ranks that this terminal has seen in an answer, so that ``@2`` works as a target afterwards.

A terminal is a session of processes: a shell and all that is started from it. Each has one small file of its own in the
home of the broker's files, readable by its user alone, replaced as a whole.

A shell that completes a word loads this, and waits for it: what only a command needs is imported where it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_dial.find import Opening
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.finding.home import check_private, home_directory

if TYPE_CHECKING:
    from dbg_wire.targets.grammar import Target, Term

DIRECTORY = "groups"

MAX_TERMINALS = 32
"""Files that are kept, the newest: more than anybody has windows open."""

MAX_AGE_SECONDS = 7 * 24 * 3600.0
"""Seconds for which groups are remembered: the ranks of longer ago are gone."""

MAX_FILE = 32 * 1024 * 1024
"""Bytes of one file that are read: the keys of 100,000 ranks are some 10 MB."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class UnknownGroup(DbgError):
    """Say that no answer in this terminal had a group of that name."""

    exit_status = 3

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name, tuple(known))
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        name = printable(self.name)
        if self.name == "@missing":
            return "no rank was missing from a collective in the last answer of this terminal; ask anew with `why`"
        if not self.known:
            return f"no group {name} is remembered in this terminal; eval, command and where give their groups names"
        more = ", …" if len(self.known) > 8 else ""
        known = f"the last answer in this terminal had no group {name}; it had {', '.join(self.known[:8])}{more}"
        # An unquoted @? is a pattern for the shell, which a file of two such letters fits.
        is_file = len(self.name) == len("@?") and self.name[1:].isalpha()
        return f"{known}; if the shell has made {name} of @?, put that into quotes: '@?'" if is_file else known


@dataclass(frozen=True, slots=True)
class RememberedGroups:
    """Remember groups in ``directory`` for the terminal called ``terminal``."""

    directory: Path
    terminal: str

    @property
    def _path(self) -> Path:
        return self.directory / f"{hashlib.sha256(self.terminal.encode()).hexdigest()[:16]}.json"

    def save(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Remember groups instead of those before, and forget other terminals of long ago. Raises OSError."""
        from dbg_dial.files import write_whole

        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {"schema": 1, "groups": {name: list(keys) for name, keys in groups.items()}}
        write_whole(self._path, json.dumps(document))
        self._forget_old()

    def load(self) -> dict[str, frozenset[str]]:
        """Return the groups of the last answer; none if it is too old, or its file is missing or not private."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                check_private(found.st_mode, found.st_uid, os.getuid(), str(self._path))
                if time.time() - found.st_mtime > MAX_AGE_SECONDS:
                    return {}
                document = json.loads(file.read(MAX_FILE))
        except (OSError, ValueError, DbgError):
            return {}
        return _groups_of(document)

    def _forget_old(self) -> None:
        now = time.time()
        ages: list[tuple[float, Path]] = []
        for path in self.directory.iterdir():
            with contextlib.suppress(OSError):
                ages.append((now - path.stat().st_mtime, path))
        ages.sort(key=lambda aged: aged[0])
        for number, (age, path) in enumerate(ages):
            if number >= MAX_TERMINALS or age > MAX_AGE_SECONDS:
                with contextlib.suppress(OSError):
                    path.unlink()


def find_remembered_groups(environ: Mapping[str, str]) -> RememberedGroups | None:
    """Return where this terminal's groups are, or None if there is no home for them."""
    try:
        home = home_directory(environ)
    except BadInput:
        return None
    return RememberedGroups(Path(home) / DIRECTORY, _terminal())


def read_target(text: str, environ: Mapping[str, str], opening: Opening) -> Target:
    """Read a target as typed, its remembered groups looked up.

    Blocks for a small file if there are any, and ``opening`` gets its directory before. Raises BadTarget, and
    UnknownGroup for a group that is not remembered.
    """
    from dbg_wire.targets.grammar import Group, parse_target

    target = parse_target(text)
    if not any(isinstance(term.what, Group) for term in (*target.include, *target.exclude)):
        return target
    memory = find_remembered_groups(environ)
    if memory is None:
        return with_groups(target, {})
    opening(str(memory.directory))
    return with_groups(target, memory.load())


def with_groups(target: Target, groups: Mapping[str, frozenset[str]]) -> Target:
    """Return a target whose groups have the ranks of these. Raises UnknownGroup for a group that is not among them."""
    return replace(
        target,
        include=tuple(_looked_up(term, groups) for term in target.include),
        exclude=tuple(_looked_up(term, groups) for term in target.exclude),
    )


def _looked_up(term: Term, groups: Mapping[str, frozenset[str]]) -> Term:
    from dbg_wire.targets.grammar import Group

    what = term.what
    if not isinstance(what, Group):
        return term
    if not groups.get(what.name):
        raise UnknownGroup(what.name, tuple(groups))
    return replace(term, what=Group(what.name, groups[what.name]))


def _groups_of(document: object) -> dict[str, frozenset[str]]:
    groups = document.get("groups") if isinstance(document, dict) and document.get("schema") == 1 else None
    if not isinstance(groups, dict):
        return {}
    return {
        name: frozenset(key for key in keys if isinstance(key, str))
        for name, keys in groups.items()
        if isinstance(keys, list)
    }


def _terminal() -> str:
    """Return what tells this terminal from all others, also from a later one with the same session id."""
    # The parent's session: the commands of a script belong to one terminal, even if each has a session of its own.
    try:
        session = os.getsid(os.getppid())
    except OSError:
        session = os.getsid(0)
    return f"{socket.gethostname()} {_boot()} {session} {_began(session)}"


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _began(pid: int) -> str:
    """Return when a process began, as the kernel counts; empty where the kernel doesn't tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command's name stands in brackets and may hold anything; the 20th field behind it is the start time.
    return stat.rpartition(")")[2].split()[19]
