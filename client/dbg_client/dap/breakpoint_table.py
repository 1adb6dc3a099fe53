"""The breakpoints that an IDE and the ranks have, and what the IDE is told of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from dbg_client.dap.messages import EXCEPTION_FILTERS, UNCAUGHT, Message
from dbg_client.dap.source import Paths
from dbg_client.questions.inspection import given
from dbg_client.views.naming import Naming
from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_CONDITION, MAX_PATH
from dbg_wire.records.bounds import MAX_RANK
from dbg_wire.records.breakpoints import BreakpointState, BreakpointWish, LineOfFile
from dbg_wire.records.ranks import RankInfo

MAX_REASONS = 3
"""Groups of ranks that one message names; the IDE shows it as a line."""

NO_RANK = "no rank of the target is there yet; it is set in each that comes"

Spot = tuple[str, int]
"""A file and a line: of the breakpoint that was asked for, or of where it is set."""

MAX_OF_FILE = 1000
"""Breakpoints of one file; a rank takes a hundred in all, and says so of each that is too much."""

_ALWAYS_ON = "it is on in ranks that were started with --post-mortem, and stays so"


@dataclass(frozen=True, slots=True)
class ShownBreakpoint:
    """A breakpoint of the IDE, and the number by which it knows it."""

    id: int
    wish: BreakpointWish

    @property
    def place(self) -> Spot:
        """Return where it was asked for."""
        return self.wish.file, self.wish.line


@dataclass(frozen=True, slots=True)
class Plan:
    """What ranks are to do for the IDE, and the breakpoints of the answer in the order in which it asked."""

    clear: tuple[LineOfFile, ...]
    set: tuple[BreakpointWish, ...]
    lines: tuple[ShownBreakpoint, ...]


class BreakpointTable:
    """What the IDE has asked for, and what each rank has answered last."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._lines: dict[Spot, ShownBreakpoint] = {}
        self._states: dict[str, tuple[BreakpointState, ...]] = {}
        self._by_place: dict[str, dict[Spot, BreakpointState]] = {}
        self._problems: dict[str, str] = {}
        self._told_to: tuple[str, ...] | None = None
        self._shown: dict[int, Message] = {}

    @property
    def wishes(self) -> tuple[BreakpointWish, ...]:
        """Return what a rank that comes is to set."""
        return tuple(line.wish for line in self._lines.values())

    def replace(self, file: str, wishes: Sequence[BreakpointWish]) -> Plan:
        """Have these in a file, and none that an earlier list has had. What others have set in ranks stays."""
        self._told_to = None
        before = {place: line for place, line in self._lines.items() if place[0] == file}
        lines: dict[Spot, ShownBreakpoint] = {}
        for wish in wishes:
            known = before.pop((file, wish.line), None)
            line = ShownBreakpoint(next(self._ids) if known is None else known.id, wish)
            lines[line.place] = line
        for place, line in before.items():
            del self._lines[place]
            self._shown.pop(line.id, None)
        self._lines.update(lines)
        return Plan(
            clear=tuple(LineOfFile(file=file, line=number) for _, number in before),
            set=tuple(wishes),
            lines=tuple(lines[file, wish.line] for wish in wishes),
        )

    def note(self, key: str, states: tuple[BreakpointState, ...]) -> None:
        """Take what a rank has by now."""
        # A rank says once why it can't set a breakpoint, and lists later only those that it has.
        told = {(state.file, state.asked) for state in states}
        refused = (one for one in self._states.get(key, ()) if not one.is_set and (one.file, one.asked) not in told)
        states = (*states, *(one for one in refused if (one.file, one.asked) in self._lines))
        if self._problems.pop(key, None) is None and self._states.get(key) == states:
            return
        self._states[key] = states
        by_place = self._by_place[key] = {}
        for state in states:
            by_place.setdefault((state.file, state.asked), state)
            by_place.setdefault((state.file, state.line), state)
        self._told_to = None

    def failed(self, key: str, problem: str) -> None:
        """Take why a rank has not answered."""
        if self._problems.get(key) != problem:
            self._problems[key] = problem
            self._told_to = None

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget the ranks that are no longer there."""
        there = set(keys)
        known: dict[str, Any]
        for known in (self._states, self._by_place, self._problems):
            for key in known.keys() - there:
                del known[key]

    def shown(self, line: ShownBreakpoint, ranks: Sequence[RankInfo]) -> Message:
        """Return a breakpoint as the protocol tells it, and take note that the IDE is told."""
        shown = _Told(line, ranks, self._by_place, self._problems).message()
        self._shown[line.id] = shown
        return shown

    def news(self, ranks: Sequence[RankInfo]) -> list[tuple[ShownBreakpoint, Message]]:
        """Return each breakpoint of which ranks say something that the IDE is not told yet."""
        keys = tuple(rank.key for rank in ranks)
        if keys == self._told_to:
            return []
        told: list[tuple[ShownBreakpoint, Message]] = []
        naming = Naming(ranks)
        for line in self._lines.values():
            now = _Told(line, ranks, self._by_place, self._problems, naming).message()
            if self._shown.get(line.id) != now:
                self._shown[line.id] = now
                told.append((line, now))
        self._told_to = keys
        return told


class _Told:
    """What ranks say of one breakpoint, together."""

    def __init__(
        self,
        line: ShownBreakpoint,
        ranks: Sequence[RankInfo],
        states: Mapping[str, Mapping[Spot, BreakpointState]],
        problems: Mapping[str, str],
        naming: Naming | None = None,
    ) -> None:
        self._line = line
        self._naming = naming or Naming(ranks)
        self._ranks = ranks
        self._at: dict[int, list[RankInfo]] = {}
        self._lacking: dict[str, list[RankInfo]] = {}
        self._notes: dict[str, list[RankInfo]] = {}
        for rank in ranks:
            state = states.get(rank.key, {}).get(line.place)
            if state is None or not state.is_set:
                told = state.problem if state is not None else problems.get(rank.key, "")
                self._lacking.setdefault(printable(told) or "it is not set there", []).append(rank)
                continue
            self._at.setdefault(state.line, []).append(rank)
            if state.problem:
                self._notes.setdefault(printable(state.problem), []).append(rank)

    def message(self) -> Message:
        """Return the protocol's Breakpoint, without its source."""
        usual = self._usual_line()
        told: Message = {"id": self._line.id, "verified": bool(self._at), "line": usual}
        text = self._text(usual)
        return {**told, "message": text} if text else told

    def _usual_line(self) -> int:
        return max(self._at, key=lambda line: len(self._at[line]), default=self._line.wish.line)

    def _text(self, usual: int) -> str:
        if not self._ranks:
            return NO_RANK
        if not self._at and len(self._lacking) == 1:
            return next(iter(self._lacking))
        parts = [f"not in {self._names(ranks)}: {why}" for why, ranks in self._lacking.items()]
        parts += [f"at line {line} in {self._names(ranks)}" for line, ranks in self._at.items() if line != usual]
        parts += [
            note if len(at) == len(self._ranks) else f"{self._names(at)}: {note}" for note, at in self._notes.items()
        ]
        left_out = len(parts) - MAX_REASONS
        return "; ".join(parts[:MAX_REASONS]) + (f"; and {left_out} more" if left_out > 0 else "")

    def _names(self, ranks: Iterable[RankInfo]) -> str:
        chosen = list(ranks)
        return f"rank{'s' if len(chosen) > 1 else ''} {self._naming.names(chosen)}"


def asked_file(arguments: Message, paths: Paths) -> str:
    """Return the file of the ranks that a request is about. Raises BadInput."""
    source = arguments.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    if not isinstance(path, str) or not path:
        raise BadInput("this file has no path, so ranks have no breakpoints in it", "open it from the stack of a rank")
    file = paths.to_rank(path)
    if not file.startswith("/") or len(file) > MAX_PATH or not file.isprintable():
        raise BadInput(
            f"{printable(file)!r} is no path of the ranks", "write a root for it into pathMappings of launch.json"
        )
    return file


def asked_wishes(arguments: Message, file: str, first_line: int) -> list[BreakpointWish | str]:
    """Return what is asked for in a file, one for each breakpoint; a sentence for one that can't be. Raises BadInput.

    ``first_line`` is how the IDE numbers a file's first line.
    """
    given = arguments.get("breakpoints")
    if given is None:
        lines = arguments.get("lines")
        given = [{"line": line} for line in lines] if isinstance(lines, list) else []
    if not isinstance(given, list) or len(given) > MAX_OF_FILE:
        raise BadInput(f"there are more than {MAX_OF_FILE} breakpoints of one file", "remove some")
    return [_wish(one, file, first_line) for one in given]


def exception_answer(arguments: Message) -> Message:
    """Return the body of the answer to ``setExceptionBreakpoints``: one row for each filter that is chosen."""
    filters = arguments.get("filters")
    chosen = filters if isinstance(filters, list) else []
    return {"breakpoints": [_exception_row(name) for name in chosen[: len(EXCEPTION_FILTERS) + 10]]}


def _exception_row(name: object) -> Message:
    if name != UNCAUGHT:
        return {"verified": False, "message": f"there is no filter {printable(repr(name), 40)}"}
    return {"verified": True, "message": _ALWAYS_ON}


def _wish(one: object, file: str, first_line: int) -> BreakpointWish | str:
    fields: Mapping[str, Any] = one if isinstance(one, dict) else {}
    line = fields.get("line")
    if not isinstance(line, int) or isinstance(line, bool) or not 1 <= line + 1 - first_line <= MAX_RANK:
        return f"{printable(repr(line), 40)} is no line"
    texts = {}
    for name, ours in (("condition", "condition"), ("hitCondition", "hits"), ("logMessage", "log")):
        text = fields.get(name) or ""
        if not isinstance(text, str) or len(text) > MAX_CONDITION:
            return f"{name} is no text of at most {MAX_CONDITION} characters"
        texts[ours] = text.strip() if ours != "log" else text
    try:
        return given(BreakpointWish, file=file, line=line + 1 - first_line, **texts)
    except BadInput as error:
        return printable(str(error))
