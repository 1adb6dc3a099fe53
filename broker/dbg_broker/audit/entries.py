"""Entry of the audit log: what happened, who did it, from where, at which ranks, and what was asked. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import Annotated

import msgspec

from dbg_wire.messages import Question
from dbg_wire.records.beside import CommandLine
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish
from dbg_wire.records.inspection import Inspection, Sight
from dbg_wire.targets.rank_set import format_ranks

MAX_TEXT = 2000
"""Characters of a question, or of any other text of an entry: an expression is shorter, a pasted block is cut."""

MAX_LINE = 16 * 1024
"""Bytes of a line that are read; a longer one is not ours."""


class What(str, Enum):
    """What has happened."""

    CONNECT = "connect"
    """A token was used."""
    REFUSE = "refuse"
    """A token was unknown, had expired, or was for something else."""
    LEAVE = "leave"
    ATTACH = "attach"
    TAKE = "take"
    DETACH = "detach"
    QUESTION = "question"
    """Something was asked of ranks, with its text: a value, a command, a stack, a kill."""
    INTERRUPT = "interrupt"
    INPUT = "input"
    """Something was typed; only if the broker was told to note it."""
    TOKEN_MADE = "token-made"  # noqa: S105 - a word
    TOKEN_REVOKED = "token-revoked"  # noqa: S105 - a word
    TOKENS_ROTATED = "tokens-rotated"
    TOKEN_HANDED = "token-handed"  # noqa: S105 - a word
    """A broker that keeps the driver's token in its memory has let a process of this host have one."""
    CERTIFICATE = "certificate"
    """The next certificate was prepared, or is shown from now on."""
    RUN = "run"
    """`dbg-broker run` started a job; ``text`` is its command."""
    START = "start"
    """The broker serves."""
    END = "end"
    CUT = "cut"
    """Entries were lost, ``count`` of them: the disk was slow or full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event. ``at`` is in seconds since the epoch.

    ``role`` and ``token`` are what the broker knows of who did it: the token's role, and the name that it was made for.
    ``terminal`` is what the terminal calls itself. ``address`` is where it came from. ``ranks`` are a rank set, or one
    rank's address, of ``job``. ``broker`` is the name of the broker in its cluster, if it is in one.
    """

    at: Annotated[float, msgspec.Meta(gt=-1e11, lt=1e11)]
    what: What
    role: str = ""
    token: str = ""
    terminal: str = ""
    address: str = ""
    job: str = ""
    ranks: str = ""
    action: str = ""
    text: str = ""
    count: int = 0
    broker: str = ""


_TEXTS = tuple(one.name for one in fields(Entry) if one.name not in ("at", "what", "count"))


def encode_entry(entry: Entry) -> bytes:
    """Return the line of an entry; what is empty is left out."""
    document: dict[str, object] = {"at": round(entry.at, 3), "what": entry.what.value}
    for name in _TEXTS:
        text = getattr(entry, name)
        if text:
            document[name] = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    if entry.count:
        document["count"] = entry.count
    # A lone surrogate, which a rank's name may hold, is escaped.
    return json.dumps(document).encode() + b"\n"


def decode_entry(line: bytes) -> Entry | None:
    """Return the entry of a line; None for a line that is none."""
    try:
        return msgspec.convert(json.loads(line), Entry) if len(line) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None


def shown_ranks(named: Iterable[tuple[int, str]]) -> str:
    """Return ranks of one job, given by number and address, as one text: the address of one, the set of several."""
    ranks = list(named)
    return ranks[0][1] if len(ranks) == 1 else format_ranks({number for number, _ in ranks})


def text_of(question: Question, *, audits_input: bool) -> str | None:
    """Return what to note of a question; None for one that holds what somebody types just now, which is input."""
    asked = question.inquiry
    if isinstance(asked, Inspection):
        return None if asked.sight is Sight.COMPLETIONS and not audits_input else _of_inspection(asked)
    if isinstance(asked, BreakpointsWish):
        return ", ".join(_of_wish(asked))
    return shlex.join(asked.words) if isinstance(asked, CommandLine) else question.text


def _of_inspection(asked: Inspection) -> str:
    if asked.sight is Sight.ASSIGN:
        return f"{asked.name} = {asked.text}"
    if asked.sight is Sight.VALUE:
        return asked.text
    if asked.sight is Sight.PARTS:
        return f"value {asked.handle}" if asked.handle else asked.scope.value
    return f"{asked.sight.value} {asked.text}".rstrip()


def _of_wish(wish: BreakpointsWish) -> Iterator[str]:
    for line in wish.clear:
        yield f"clear {line.file}:{line.line}"
    for one in wish.set:
        yield f"set {one.file}:{one.line}{_conditions(one)}"


def _conditions(one: BreakpointWish) -> str:
    return "".join(
        f" {word} {text}" for word, text in (("if", one.condition), ("hits", one.hits), ("log", one.log)) if text
    )
