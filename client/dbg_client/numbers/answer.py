"""Answer of ranks about their watches: the first wrong number of the job, or the fact that there is none. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.verbs.verb import PARTIAL, PLAIN, Answer, Style
from dbg_client.views.naming import Naming
from dbg_client.why.show import Diagnosis, shown
from dbg_client.why.verdict import NextStep, Purpose
from dbg_wire.errors import Remedy, printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.numbers import NumbersState, Origin, WrongNumber
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import plain

MAX_SHOWN = 8
"""Maximum number of ranks with wrong numbers in the text; JSON lists all."""

FOUND_STATUS = 1
"""Exit status if a number is wrong."""

_CODES = {FOUND_STATUS: "1;31", 0: "32", PARTIAL: "35"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersAnswer(Answer):
    """States of the watches of ``ranks``, by key, and the ranks with wrong numbers, the earliest first.

    ``refusals`` are the reasons of ranks that can't watch.
    """

    ranks: tuple[RankInfo, ...]
    states: Mapping[str, NumbersState]
    wrong: tuple[tuple[RankInfo, WrongNumber], ...]
    refusals: tuple[str, ...] = ()

    @property
    def watching(self) -> tuple[RankInfo, ...]:
        """The ranks whose watches are on."""
        return tuple(rank for rank in self.ranks if rank.key in self.states and self.states[rank.key].is_on)

    @property
    def status(self) -> int:
        return FOUND_STATUS if self.wrong else 0 if self.watching else PARTIAL

    @property
    def curve(self) -> list[tuple[int, float, float, float]]:
        """The steps with the norms of their gradients: smallest, median and largest of the ranks."""
        at: defaultdict[int, list[float]] = defaultdict(list)
        for state in self.states.values():
            for one in state.norms:
                at[one.step].append(one.norm)
        return [(step, min(some), statistics.median(some), max(some)) for step, some in sorted(at.items())]

    def text(self, style: Style = PLAIN) -> str:
        naming = Naming(self.ranks)
        color = _CODES[self.status] if style.color else None
        diagnoses = [self._diagnosis(*one, naming) for one in self.wrong[:MAX_SHOWN]] or [self._nothing_wrong()]
        lines = [shown(one, color, style.columns, style.word) for one in diagnoses]
        if len(self.wrong) > MAX_SHOWN:
            lines.append(f"and {len(self.wrong) - MAX_SHOWN} more ranks; --json lists them\n")
        return "".join(lines)

    def _diagnosis(self, rank: RankInfo, wrong: WrongNumber, naming: Naming) -> Diagnosis:
        name, is_there = naming.name(rank), rank.state is RankState.STOPPED
        return Diagnosis(
            job="",
            sentence=f"rank {name}, {wrong.text}",
            evidence=tuple(self._evidence()) if wrong is self.wrong[0][1] else (),
            next=NextStep(Remedy("attach", name), Purpose.OPENS) if is_there else None,
        )

    def _nothing_wrong(self) -> Diagnosis:
        steps = [self.states[rank.key].step for rank in self.watching]
        sentence = "no rank watches its numbers"
        if steps:
            them = "1 rank watches its" if len(steps) == 1 else f"{len(steps)} ranks watch their"
            sentence = f"{them} numbers; none is wrong up to step {max(steps)}"
        return Diagnosis(job="", sentence=sentence, evidence=tuple(self._evidence()))

    def _evidence(self) -> Iterable[str]:
        if compiled := max((state.compiled for state in self.states.values()), default=0):
            yield f"in {compiled} compiled regions only the outputs are watched"
        yield from (printable(text) for text in self.refusals)

    def document(self) -> dict[str, object]:
        return {
            "schema": 1,
            "asked": len(self.ranks),
            "answered": len(self.states),
            "watching": len(self.watching),
            "gradient_norms": self.curve,
            "step": max((state.step for state in self.states.values()), default=None),
            "wrong": [
                {"job": rank.job, "rank": rank.rank, "address": rank.address, "sentence": wrong.text}
                | {name: value for name, value in plain(wrong).items() if name != "row"}
                for rank, wrong in self.wrong
            ],
        }


def answer_of(ranks: Sequence[RankInfo], answers: Sequence[RankAnswer]) -> NumbersAnswer:
    """Return the answers of ranks as one. Of equal steps, the rank that has computed the number comes first."""
    states: dict[str, NumbersState] = {}
    wrong: list[tuple[RankInfo, WrongNumber]] = []
    refusals: set[str] = set()
    for rank, answer in zip(ranks, answers, strict=True):
        for row in answer.rows:
            if isinstance(row, NumbersState):
                states[rank.key] = row
            elif isinstance(row, WrongNumber):
                wrong.append((rank, row))
        if answer.kind is not Kind.VALUE:
            refusals.add(answer.text)
    wrong.sort(key=lambda one: (one[1].step, one[1].origin is Origin.RECEIVED, one[0].rank))
    return NumbersAnswer(ranks=tuple(ranks), states=states, wrong=tuple(wrong), refusals=tuple(sorted(refusals)))
