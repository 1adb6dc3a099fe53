"""Which ranks run other files, packages or environments than most, and a table of what differs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.process_groups import Roster
from dbg_wire.errors import printable
from dbg_wire.records.evidence import MAX_CODE_ROWS, CodeKind, CodePart, CodeSeen
from dbg_wire.targets.rank_set import format_ranks

MAX_VERSIONS = 8
"""Different codes of which a rank each is asked for its parts."""

MAX_NAME, MAX_VALUE = 60, 60

_WORDS = {CodeKind.FILE: "file", CodeKind.PACKAGE: "package", CodeKind.VARIABLE: "variable"}

ABSENT = "absent"
"""Stands for a part that a rank does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeVersion:
    """Ranks with the same digests, the usual ones first; ``parts`` are what is behind them, once one was asked."""

    code: CodeSeen
    numbers: tuple[int, ...]

    @property
    def representative(self) -> int:
        """Return the rank that is asked for all of them."""
        return self.numbers[0]


def code_versions(roster: Roster) -> list[CodeVersion]:
    """Return the different codes of a run, the one that most ranks run first; ranks that do not tell are left out.

    Ranks that have not read all their files and packages yet come last.
    """
    ranks: defaultdict[CodeSeen, list[int]] = defaultdict(list)
    for number, one in roster.items():
        code = one.evidence.code if one.evidence is not None else None
        if code is not None and (code.files or code.packages or code.environment):
            ranks[code].append(number)
    versions = [CodeVersion(code=code, numbers=tuple(numbers)) for code, numbers in ranks.items()]
    return sorted(versions, key=lambda one: ("" in (one.code.files, one.code.packages), -len(one.numbers), one.numbers))


def differing(versions: Sequence[CodeVersion]) -> list[str]:
    """Return what differs between versions: files, packages, environments."""
    found = []
    for name, what in (("files", "files"), ("packages", "packages"), ("environment", "environment variables")):
        if len({getattr(version.code, name) for version in versions} - {""}) > 1:
            found.append(what)
    return found


def code_table(roster: Roster, parts: Mapping[int, Sequence[CodePart]]) -> list[str]:
    """Return a line for each part that differs between the codes of a run, of which a rank each was asked."""
    versions = code_versions(roster)
    told = [(version.numbers, parts[number]) for version in versions if (number := version.representative) in parts]
    return difference_table(told)


def difference_table(told: Sequence[tuple[Sequence[int], Sequence[CodePart]]]) -> list[str]:
    """Return a line for each part that differs: its name, and each value with the ranks that have it.

    A rank that tells no part of a kind is still reading them, and one that tells MAX_CODE_ROWS parts has no room for
    all of the last kind: nothing of that kind is absent there.
    """
    values = [{(part.kind, part.name): part.value for part in parts} for _, parts in told]
    kinds = [_whole_kinds(parts) for _, parts in told]
    lines = []
    for kind, name in sorted({key for one in values for key in one}, key=lambda key: (key[0].value, key[1])):
        ranks: defaultdict[str, list[int]] = defaultdict(list)
        for (numbers, _), one, has in zip(told, values, kinds, strict=True):
            if kind in has or (kind, name) in one:
                ranks[one.get((kind, name), ABSENT)] += numbers
        if len(ranks) > 1:
            said = "; ".join(
                f"{printable(value, MAX_VALUE)}: {format_ranks(some)[:40]}" for value, some in ranks.items()
            )
            lines.append(f"{_WORDS[kind]} {printable(name, MAX_NAME)}  {said}")
    return lines


def _whole_kinds(parts: Sequence[CodePart]) -> set[CodeKind]:
    """Return the kinds of which a rank tells all parts that it has; they are told one kind after the other."""
    cut = {parts[-1].kind} if len(parts) >= MAX_CODE_ROWS else set()
    return {part.kind for part in parts} - cut
