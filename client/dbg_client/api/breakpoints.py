"""Set, clear and list breakpoints in any number of ranks, including running ones, and group the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_client.views.groups import RankAndAnswer
from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_BREAKPOINTS, MAX_TEXT
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, BreakpointState, LineOfFile
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import clamp, length_of

NO_BREAKPOINTS = "no breakpoints"
NONE_AT_LINE = "no breakpoint at this line"
REMOVED = "removed"
CANT_BE_SET = "it can't be set"

States = Mapping[str, tuple[BreakpointState, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakpointAnswer:
    """Breakpoints of ranks, and the reasons why other ranks did not report their breakpoints.

    ``states`` has the breakpoints of each rank that answered, by its key, including new breakpoints that the rank could
    not set. ``by_rank`` has an answer of any kind for each rank that was asked.
    """

    by_rank: tuple[RankAndAnswer, ...]
    states: States

    def at(self, line: LineOfFile) -> dict[str, BreakpointState]:
        """Return each rank's breakpoint at a line, by key.

        A breakpoint that was requested for this line takes precedence over a breakpoint that was moved to it.
        """
        found = {}
        for key, states in self.states.items():
            near = [one for one in states if one.file == line.file and line.line in (one.asked, one.line)]
            if near:
                found[key] = max(near, key=lambda one: one.asked == line.line)
        return found

    def answers_at(self, asked: LineOfFile, had: Container[str] = ()) -> tuple[RankAndAnswer, ...]:
        """Return each rank's answer about the breakpoint at a line, in a form that can be grouped.

        The answer is an error if the rank can't set the breakpoint. It contains the new line if the rank has moved the
        breakpoint. ``had`` contains the keys of ranks that had the breakpoint before it was cleared.
        """
        states = self.at(asked)
        return tuple(
            (rank, _with_text(answer, *outcome(states.get(rank.key), was_set=rank.key in had)))
            if rank.key in self.states
            else (rank, answer)
            for rank, answer in self.by_rank
        )

    def all_answers(self) -> tuple[RankAndAnswer, ...]:
        """Return the breakpoints of each rank, one per line, as answers that can be grouped."""
        return tuple(
            (rank, _with_text(answer, Kind.VALUE, _listed(self.states[rank.key])))
            if rank.key in self.states
            else (rank, answer)
            for rank, answer in self.by_rank
        )


async def change_breakpoints(
    asker: Asker, ranks: Sequence[RankInfo], at: LineOfFile | None, spec: BreakpointSpec | None
) -> tuple[RankAndAnswer, ...]:
    """Set or clear the breakpoint ``at`` a line and return each rank's answer; without ``at``, list breakpoints."""
    clear = [at] if at is not None and spec is None else []
    had = (await ask_breakpoints(asker, ranks)).at(clear[0]) if clear else {}
    result = await ask_breakpoints(asker, ranks, clear=clear, wanted=[spec] if spec is not None else [])
    return result.answers_at(at, had) if at is not None else result.all_answers()


async def ask_breakpoints(
    asker: Asker, ranks: Sequence[RankInfo], *, clear: Sequence[LineOfFile] = (), wanted: Sequence[BreakpointSpec] = ()
) -> BreakpointAnswer:
    """Ask ranks to clear breakpoints and then set the ``wanted`` ones; return all breakpoints of each rank afterwards.

    A request for a line that already has a breakpoint changes that breakpoint. Requests that don't fit into one
    question are sent in several questions, one after the other. Raises BadInput for a request that is too long for a
    question, and DbgError if the broker fails.
    """
    by_rank: dict[str, RankAnswer] = {}
    states: dict[str, dict[LineOfFile, BreakpointState]] = {rank.key: {} for rank in ranks}
    asked = list(ranks)
    for spec in split_changes(clear, wanted):
        answers = await asker.ask(Action.BREAKPOINTS, asked, inquiry=spec) if asked else []
        for rank, answer in zip(asked, answers, strict=True):
            by_rank[rank.key], result = answer, breakpoints_in(answer)
            # A breakpoint that could not be set is reported only in the answer to its own question.
            refused = {line: state for line, state in states[rank.key].items() if not state.is_set}
            states[rank.key] = {**refused, **{asked_line(state): state for state in result}}
        asked = [rank for rank in asked if by_rank[rank.key].kind is Kind.VALUE]
    return BreakpointAnswer(
        by_rank=tuple((rank, by_rank[rank.key]) for rank in ranks),
        states={rank.key: tuple(states[rank.key].values()) for rank in asked},
    )


def split_changes(clear: Sequence[LineOfFile], wanted: Sequence[BreakpointSpec]) -> list[BreakpointChanges]:
    """Split requests into questions of valid size; requests to clear are first.

    Without requests, return one empty question. Raises BadInput for a breakpoint with texts that are too long.
    """
    changes = [BreakpointChanges()]
    every: list[LineOfFile | BreakpointSpec] = [*clear, *wanted]
    for one in every:
        alone = _with(BreakpointChanges(), one)
        if length_of(alone) > MAX_TEXT:
            what = f"the text of the breakpoint at line {one.line} of {printable(one.file)} is too long"
            raise BadInput(what, "shorten its condition or its log")
        last = changes[-1]
        is_full = len(last.clear) == MAX_BREAKPOINTS or len(last.set) == MAX_BREAKPOINTS
        longer = None if is_full else _with(last, one)
        if longer is not None and length_of(longer) <= MAX_TEXT:
            changes[-1] = longer
        else:
            changes.append(alone)
    return changes


def asked_line(state: BreakpointState) -> LineOfFile:
    """Return the line that a breakpoint was requested for."""
    return LineOfFile(file=state.file, line=state.asked)


def outcome(state: BreakpointState | None, *, was_set: bool = False) -> tuple[Kind, str]:
    """Return a rank's answer about one breakpoint: an error if it can't be set, otherwise a value."""
    if state is None:
        return Kind.VALUE, REMOVED if was_set else NONE_AT_LINE
    if not state.is_set:
        return Kind.ERROR, state.problem or CANT_BE_SET
    moved = f" at line {state.line}" if state.line != state.asked else ""
    return Kind.VALUE, f"set{moved}" + (f"; {state.problem}" if state.problem else "")


def describe(state: BreakpointState) -> str:
    """Describe one breakpoint in a line: its place, its condition or log text, and any problem."""
    parts = [f"{state.file}:{state.line}"]
    parts += [f"if {state.condition}"] if state.condition else []
    parts += [f"hits {state.hits}"] if state.hits else []
    parts += [f"log {state.log!r}"] if state.log else []
    problem = state.problem if state.is_set else f"not set: {state.problem or CANT_BE_SET}"
    moved = f"asked for line {state.asked}" if state.asked != state.line else ""
    odd = "; ".join(filter(None, (moved, problem)))
    return " ".join(parts) + (f" ({odd})" if odd else "")


def _listed(states: Sequence[BreakpointState]) -> str:
    return (
        "\n".join(describe(state) for state in sorted(states, key=lambda one: (one.file, one.line))) or NO_BREAKPOINTS
    )


def breakpoints_in(answer: RankAnswer) -> tuple[BreakpointState, ...]:
    """Return the breakpoints in an answer."""
    return tuple(row for row in answer.rows if isinstance(row, BreakpointState))


def _with_text(answer: RankAnswer, kind: Kind, text: str) -> RankAnswer:
    # The digest marks the text as complete: without a digest, a text of several lines is treated as truncated.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return clamp(RankAnswer, key=answer.key, kind=kind, text=text, digest=digest)


def _with(spec: BreakpointChanges, one: LineOfFile | BreakpointSpec) -> BreakpointChanges:
    if isinstance(one, BreakpointSpec):
        return spec.replace(set=(*spec.set, one))
    return spec.replace(clear=(*spec.clear, one))
