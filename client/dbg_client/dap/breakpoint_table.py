"""The breakpoints that an IDE and the ranks have, and what the IDE is told of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from dbg_wire.errors import printable
from dbg_wire.line_breakpoints import BreakpointState, BreakpointWish, LineOfFile
from dbg_wire.ranks import RankInfo

from ..views.naming import Naming
from .messages import Message

MAX_REASONS = 3
"""Groups of ranks that one message names; the IDE shows it as a line."""

NO_RANK = "no rank of the target is there yet; it is set in each that comes"


@dataclass(frozen=True, slots=True)
class Line:
    """A breakpoint that the IDE shows. With ``is_told`` a rank's debugger has set it, and the IDE was told of it."""

    id: int
    wish: BreakpointWish
    is_told: bool = False

    def fits(self, state: BreakpointState) -> bool:
        """Tell whether a rank speaks of this breakpoint."""
        return state.file == self.wish.file and self.wish.line in (state.asked, state.line)


@dataclass(frozen=True, slots=True)
class Plan:
    """What ranks are to do for the IDE, and the breakpoints of the answer in the order in which it asked."""

    clear: tuple[LineOfFile, ...]
    set: tuple[BreakpointWish, ...]
    lines: tuple[Line, ...]


class BreakpointTable:
    """What the IDE has asked for, and what each rank has answered last."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._lines: dict[int, Line] = {}
        self._states: dict[str, tuple[BreakpointState, ...]] = {}
        self._problems: dict[str, str] = {}
        self._shown: dict[int, Message] = {}

    @property
    def wishes(self) -> tuple[BreakpointWish, ...]:
        """Return what a rank that comes is to set."""
        return tuple(line.wish for line in self._lines.values() if not line.is_told)

    def replace(self, file: str, wishes: Sequence[BreakpointWish]) -> Plan:
        """Have these and no others in a file. What ranks' debuggers have set without the IDE's knowledge stays."""
        before = {line.wish.line: line for line in self._lines.values() if line.wish.file == file}
        lines: dict[int, Line] = {}
        for wish in wishes:
            known = before.get(wish.line)
            if known is None:
                lines[wish.line] = Line(next(self._ids), wish)
            else:
                # A breakpoint that a rank's debugger has set stays that rank's own until the IDE changes it.
                lines[wish.line] = replace(known, wish=wish, is_told=known.is_told and known.wish == wish)
        gone = [line for number, line in before.items() if number not in lines]
        for line in gone:
            self._drop(line.id)
        self._lines.update((line.id, line) for line in lines.values())
        return Plan(
            clear=tuple(LineOfFile(file=file, line=line.wish.line) for line in gone),
            set=tuple(line.wish for line in lines.values() if not line.is_told),
            lines=tuple(lines[wish.line] for wish in wishes),
        )

    def note(self, key: str, states: tuple[BreakpointState, ...]) -> None:
        """Take what a rank has by now."""
        # A rank says once why it can't set a breakpoint, and lists later only those that it has.
        told = {(state.file, state.asked) for state in states}
        refused = (one for one in self._states.get(key, ()) if not one.is_set and (one.file, one.asked) not in told)
        known = {(line.wish.file, line.wish.line) for line in self._lines.values()}
        self._states[key] = (*states, *(one for one in refused if (one.file, one.asked) in known))
        self._problems.pop(key, None)

    def failed(self, key: str, problem: str) -> None:
        """Take why a rank has not answered."""
        self._problems[key] = problem

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget the ranks that are no longer there."""
        there = set(keys)
        for known in (self._states, self._problems):
            for key in known.keys() - there:
                del known[key]

    def shown(self, line: Line, ranks: Sequence[RankInfo]) -> Message:
        """Return a breakpoint as the protocol tells it, and take note that the IDE is told."""
        shown = _Told(line, ranks, self._states, self._problems).message()
        self._shown[line.id] = shown
        return shown

    def news(self, ranks: Sequence[RankInfo]) -> list[tuple[str, Line, Message]]:
        """Return what the IDE is not told yet: ``new``, ``changed`` or ``removed``, with each breakpoint."""
        told: list[tuple[str, Line, Message]] = []
        for line in list(self._lines.values()):
            before = self._shown.get(line.id)
            now = _Told(line, ranks, self._states, self._problems).message()
            if before == now:
                continue
            if self._is_cleared(line, before, now, ranks):
                self._drop(line.id)
                told.append(("removed", line, {"id": line.id, "verified": False}))
            else:
                self._shown[line.id] = now
                told.append(("changed", line, now))
        return [*told, *(("new", line, self.shown(line, ranks)) for line in self._unknown(ranks))]

    def _is_cleared(self, line: Line, before: Message | None, now: Message, ranks: Sequence[RankInfo]) -> bool:
        """Tell whether every rank that had the breakpoint has answered without it."""
        if before is None or not before["verified"] or now["verified"]:
            return False
        answered = [rank.key for rank in ranks if rank.key in self._states and rank.key not in self._problems]
        return bool(answered) and not any(line.fits(state) for key in answered for state in self._states[key])

    def _unknown(self, ranks: Sequence[RankInfo]) -> list[Line]:
        found: list[Line] = []
        for state in (state for rank in ranks for state in self._states.get(rank.key, ()) if state.is_set):
            if not any(line.fits(state) for line in self._lines.values()):
                wish = BreakpointWish(
                    file=state.file, line=state.line, condition=state.condition, hits=state.hits, log=state.log
                )
                line = Line(next(self._ids), wish, is_told=True)
                self._lines[line.id] = line
                found.append(line)
        return found

    def _drop(self, number: int) -> None:
        self._lines.pop(number, None)
        self._shown.pop(number, None)


class _Told:
    """What ranks say of one breakpoint, together."""

    def __init__(
        self,
        line: Line,
        ranks: Sequence[RankInfo],
        states: Mapping[str, tuple[BreakpointState, ...]],
        problems: Mapping[str, str],
    ) -> None:
        self._line = line
        self._naming = Naming(ranks)
        self._ranks = ranks
        self._at: dict[int, list[RankInfo]] = {}
        self._lacking: dict[str, list[RankInfo]] = {}
        self._notes: dict[str, list[RankInfo]] = {}
        for rank in ranks:
            state = next((one for one in states.get(rank.key, ()) if line.fits(one)), None)
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
        lines = Counter({line: len(ranks) for line, ranks in self._at.items()})
        return lines.most_common(1)[0][0] if lines else self._line.wish.line

    def _text(self, usual: int) -> str:
        if not self._ranks:
            return NO_RANK
        if not self._at and len(self._lacking) == 1:
            return next(iter(self._lacking))
        if self._line.is_told:
            # A breakpoint of one rank's debugger is not missing in the others.
            return f"set in {self._names(rank for ranks in self._at.values() for rank in ranks)}"
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
