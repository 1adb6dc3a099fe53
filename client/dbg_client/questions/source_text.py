"""Read source as a rank has loaded it, whether it is stopped or runs, a part at a time."""

from __future__ import annotations

import html
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_client.questions.inspection import inspect
from dbg_wire.errors import printable
from dbg_wire.limits import MAX_PATH, MAX_TEXT
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.inspection import Inspection, Sight
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import fitted

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
