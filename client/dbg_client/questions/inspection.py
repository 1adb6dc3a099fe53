"""Look into one rank as an IDE does: its values in levels, its source files and their lines."""

from __future__ import annotations

import asyncio
import html
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from dbg_client.core.asking import Asker
from dbg_wire.bounds import InvalidMessage
from dbg_wire.errors import BadInput, printable
from dbg_wire.inspection import Inspected, Inspection, Sight, inspected_in
from dbg_wire.limits import MAX_PATH, MAX_TEXT
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.ranks import RankInfo
from dbg_wire.records import checked, fitted


async def inspect(
    asker: Asker, rank: RankInfo, question: Inspection, *, frame: str = "", live: bool = False
) -> tuple[RankAnswer, Inspected]:
    """Ask one rank about its values, and return its answer with what its rows tell.

    What is told is empty if the answer is no value: the answer's text says why. With ``live`` a rank that runs tells
    its source, too. Raises BadInput for an expression that is too long, and DbgError if the broker fails.
    """
    (answer,) = await asker.ask(Action.INSPECT, [rank], inquiry=question, live=live, frame=frame)
    return answer, inspected_in(answer.rows)


P = ParamSpec("P")
R = TypeVar("R")


def given(make: Callable[P, R], *args: P.args, **values: P.kwargs) -> R:
    """Return a record of these values. Raises BadInput, which names the first wrong one."""
    try:
        return checked(make(*args, **values))  # type: ignore[type-var] # a record's class
    except InvalidMessage as error:
        raise BadInput(error.suffix.strip().lstrip("."), "give another one") from None


MAX_ANSWERS = 256
"""Questions for one text: four million characters, above which nobody reads a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Lines of a source file as a rank has loaded it, with what a terminal would obey escaped.

    ``begin`` is the number of the first line, counted from 1 as editors do; ``total`` is how many the file has.
    ``line`` is where the rank stands, if it stands in this file. ``str()`` of it has the lines with their numbers.
    """

    path: str
    begin: int
    total: int
    lines: tuple[str, ...]
    line: int | None = None

    def __str__(self) -> str:
        width = len(str(self.begin + len(self.lines)))
        return "\n".join(
            f"{number:>{width}} {'->' if number == self.line else '  '} {line}".rstrip()
            for number, line in enumerate(self.lines, self.begin)
        )

    def _repr_html_(self) -> str:
        """Return the lines for a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"


async def read_source(
    asker: Asker, rank: RankInfo, path: str, *, begin: int = 1, count: int = 0
) -> tuple[RankAnswer, Source | None]:
    """Return ``count`` lines of a file of a rank from line ``begin`` on, counted from 1; all that follow for 0.

    The answer says why if there are none. Raises DbgError if the broker fails.
    """
    lines: list[str] = []
    total = 0
    for _ in range(MAX_ANSWERS):
        left = count - len(lines) if count else 0
        question = Inspection(sight=Sight.SOURCE, text=path, begin=begin - 1 + len(lines), count=left)
        answer, told = await inspect(asker, rank, question, live=True)
        if answer.kind is not Kind.VALUE:
            return answer, None
        new = [line for part in told.sources for line in part.lines.split("\n")][: left or None]
        lines += new
        total = told.sources[0].total if told.sources else total
        if not new or begin - 1 + len(lines) >= total or len(lines) == count:
            break
    if not lines:
        return fitted(RankAnswer, key=rank.key, kind=Kind.ERROR, text=f"{path} has no line {begin}"), None
    line = rank.where.line if rank.where is not None and rank.where.file == path else None
    shown = tuple(printable(one.expandtabs(), MAX_TEXT) for one in lines)
    return answer, Source(path=printable(path, MAX_PATH), begin=begin, total=total, lines=shown, line=line)


MAX_NAMED = 3
"""Files of one name that an error lists."""


async def file_in_ranks(asker: Asker, ranks: Sequence[RankInfo], name: str) -> str:
    """Return the absolute path of a file in the ranks.

    A name that is not absolute is looked for among the scripts of these ranks and the places where they stand, then in
    their whole stacks, and last in this program's directory. Raises BadInput if it is none, or several.
    """
    if name.startswith("/"):
        return posixpath.normpath(name)
    if name.startswith("<"):
        # Code without a file, such as that of a notebook's cell.
        return name
    places = [rank.where.file for rank in ranks if rank.where is not None]
    found = files_named(name, [*(rank.script for rank in ranks), *places])
    if not found:
        answers = await asker.ask(Action.WHERE, ranks)
        found = files_named(name, (frame.file for answer in answers for frame in answer.frames))
    if not found:
        found = await asyncio.to_thread(_of_this_host, name)
    if not found:
        raise BadInput(f"no rank stands in a file {printable(name)!r}", "give its absolute path")
    if len(found) > 1:
        raise BadInput(f"{printable(name)} is {_several(found)}", "give its absolute path")
    return found[0]


def files_named(name: str, paths: Iterable[str]) -> list[str]:
    """Return the different absolute paths that end with this name, in order."""
    end = posixpath.normpath(f"/{name}")
    return sorted({path for path in paths if path.startswith("/") and path.endswith(end)}) if name else []


def _of_this_host(name: str) -> list[str]:
    return [str(Path(name).absolute())] if os.path.isfile(name) else []  # noqa: PTH113 - Path raises for odd names


def _several(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return ", ".join(printable(path) for path in paths[:MAX_NAMED]) + more
