"""Groups of ranks of the user's last answer, so that ``@2`` works as a target afterwards.

They are stored in one small file in the broker's home. Only its user can read the file, and each update replaces the
whole file.

Shell completion imports this module and waits for it, so imports that only commands need are inside functions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_dial.find import Opening
from dbg_dial.home import check_private, home_directory
from dbg_wire.errors import BadInput, DbgError, first_of, printable

if TYPE_CHECKING:
    from dbg_command.targets import Target, Term

FILE = "groups.json"

MAX_FILE = 32 * 1024 * 1024
"""Maximum bytes that are read from the file. The keys of 100,000 ranks are about 10 MB."""


class UnknownGroup(DbgError):
    """Raised when the last answer had no group of that name."""

    exit_status = 3

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name, tuple(known))
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        name = printable(self.name)
        if self.name == "@missing":
            return "no rank was missing from a collective in the last answer; ask again with `why`"
        if not self.known:
            return f"no group {name} is remembered; eval, command and where name the groups of their answers"
        return f"the last answer had no group {name}; it had {first_of(self.known)}"


@dataclass(frozen=True, slots=True)
class RememberedGroups:
    """File that stores the groups."""

    path: Path

    def save(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Replace the stored groups. Raises OSError."""
        from dbg_command.home import write_whole

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {"schema": 1, "groups": {name: list(keys) for name, keys in groups.items()}}
        write_whole(self.path, json.dumps(document))

    def load(self) -> dict[str, frozenset[str]]:
        """Return the groups of the last answer; empty if the file is missing or not private."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                check_private(found.st_mode, found.st_uid, os.getuid(), str(self.path))
                document = json.loads(file.read(MAX_FILE))
        except (OSError, ValueError, DbgError):
            return {}
        return _groups_of(document)


def find_remembered_groups(environ: Mapping[str, str]) -> RememberedGroups | None:
    """Return the file of the groups, or None without a home directory for it."""
    try:
        home = home_directory(environ)
    except BadInput:
        return None
    return RememberedGroups(Path(home) / FILE)


def remember(environ: Mapping[str, str], groups: Mapping[str, Sequence[str]], target: str | None = None) -> str:
    """Store the names of an answer's groups for targets of later commands. Blocks.

    Return the reason if they can't be stored, else an empty text. An answer without groups, such as that to ``list``,
    leaves the names unchanged. If only ``@missing`` was asked, an answer without missing ranks does not change that
    group: only the ranks that wait in the collective can show which ranks are missing.
    """
    memory = find_remembered_groups(environ)
    if memory is None or not groups:
        return ""
    try:
        if target == "@missing" and not groups.get("@missing"):
            groups = {**groups, "@missing": tuple(memory.load().get("@missing", ()))}
        memory.save(groups)
    except OSError as error:
        return f"the groups' names are not remembered ({error.strerror or type(error).__name__})"
    return ""


def read_target(text: str, environ: Mapping[str, str], opening: Opening) -> Target:
    """Parse a target and look up its remembered groups.

    If the target has groups, the call reads a small file, which may hang. Before it reads the file, it calls
    ``opening`` with the file's path. Raises BadTarget, and UnknownGroup for a group that is not remembered.
    """
    from dbg_command.targets import Group, parse_target

    target = parse_target(text)
    if not any(isinstance(term.what, Group) for term in (*target.include, *target.exclude)):
        return target
    memory = find_remembered_groups(environ)
    if memory is None:
        return with_groups(target, {})
    opening(str(memory.path))
    return with_groups(target, memory.load())


def with_groups(target: Target, groups: Mapping[str, frozenset[str]]) -> Target:
    """Return a target with the ranks of its groups. Raises UnknownGroup for a group that is not in ``groups``."""
    return replace(
        target,
        include=tuple(_looked_up(term, groups) for term in target.include),
        exclude=tuple(_looked_up(term, groups) for term in target.exclude),
    )


def _looked_up(term: Term, groups: Mapping[str, frozenset[str]]) -> Term:
    from dbg_command.targets import Group

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
