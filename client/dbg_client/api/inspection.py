"""Ask one rank, and find a file by name in the ranks' stacks."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from dbg_client.core.asking import Asker
from dbg_wire.errors import BadInput, DbgError, first_of, printable
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import InvalidMessage, checked

P = ParamSpec("P")
R = TypeVar("R")

MAX_NAMED = 3
"""Maximum number of files with the same name that an error lists."""


def given(make: Callable[P, R], *args: P.args, **values: P.kwargs) -> R:
    """Build a record from these values. Raises BadInput, which names the first invalid value."""
    try:
        return checked(make(*args, **values))  # type: ignore[type-var] # a record's class
    except InvalidMessage as error:
        raise BadInput(error.suffix.lstrip(":. "), "use another value") from None


class RankError(DbgError):
    """Raised when a rank does not answer with a value: the expression raised an exception, or the rank runs."""

    def __init__(self, address: str, text: str, kind: str) -> None:
        super().__init__(address, text, kind)
        self.address = address
        self.text = text
        self.kind = kind
        """``error``, ``running``, ``silent`` or ``lost``, as in the JSON of the command line."""

    def __str__(self) -> str:
        return f"{printable(self.address)}: {printable(self.text)}"


async def ask_one(
    asker: Asker,
    action: Action,
    rank: RankInfo,
    text: str = "",
    *,
    inquiry: AnyInquiry | None = None,
    frame: str = "",
    live: bool = False,
) -> RankAnswer:
    """Ask one rank. Raises RankError if the answer is not a value, and DbgError if the broker fails."""
    (answer,) = await asker.ask(action, [rank], text, inquiry=inquiry, frame=frame, live=live)
    if answer.kind is not Kind.VALUE:
        raise RankError(rank.address, answer.text, answer.kind.value)
    return answer


async def file_in_ranks(asker: Asker, ranks: Sequence[RankInfo], name: str) -> str:
    """Return the absolute path of a file in the ranks.

    A relative name is looked up in the scripts and current places of these ranks, then in their stacks, and then in
    this program's directory. Raises BadInput if no file or several files match.
    """
    if name.startswith("/"):
        return posixpath.normpath(name)
    if name.startswith("<"):
        # The name is not of a file, but of other code, such as a notebook's cell.
        return name
    places = [rank.where.file for rank in ranks if rank.where is not None]
    found = files_named(name, [*(rank.script for rank in ranks), *places])
    if not found:
        answers = await asker.ask(Action.WHERE, ranks)
        found = files_named(name, (frame.file for answer in answers for frame in answer.frames))
    if not found:
        found = await asyncio.to_thread(_of_this_host, name)
    if not found:
        raise BadInput(f"no rank's stack has a file {printable(name)!r}", "use its absolute path")
    if len(found) > 1:
        raise BadInput(f"{printable(name)} matches {first_of(found, MAX_NAMED)}", "use its absolute path")
    return found[0]


def files_named(name: str, paths: Iterable[str]) -> list[str]:
    """Return the distinct absolute paths that end with this name, sorted."""
    end = posixpath.normpath(f"/{name}")
    return sorted({path for path in paths if path.startswith("/") and path.endswith(end)}) if name else []


def _of_this_host(name: str) -> list[str]:
    return [str(Path(name).absolute())] if os.path.isfile(name) else []  # noqa: PTH113 - Path raises for odd names
