"""Which file of the ranks a user means who names it as people do: ``train.py``, ``model/attention.py``."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Iterable, Sequence
from pathlib import Path

from dbg_client.core.asking import Asker
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Action
from dbg_wire.records.ranks import RankInfo

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
