"""The answer about the watches of ranks: the order of wrong numbers, the exit status, the chart, and each sentence."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import pytest

from dbg_client.numbers.answer import NumbersAnswer, answer_of
from dbg_client.numbers.watch_options import WatchOptions
from dbg_wire.errors import BadInput
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.numbers import GradientNorm, NumbersState, Origin, Suspect, WrongNumber
from tests.support.rank_infos import rank as listed_rank

WRONG, RECEIVED, LATER = (
    WrongNumber(step=step, suspect=Suspect.OUTPUT, name="up", origin=origin, nans=1, size=2)
    for step, origin in ((3, Origin.COMPUTED), (3, Origin.RECEIVED), (4, Origin.COMPUTED))
)


def answer(*given: tuple[bool, WrongNumber | None] | None) -> NumbersAnswer:
    """Return the answer of ranks that watch or not, and have a wrong number or not; None can't watch."""
    ranks = [listed_rank(f"gpu1:{number}") for number in range(len(given))]
    answers = []
    for rank, one in zip(ranks, given, strict=True):
        if one is None:
            answers.append(RankAnswer(key=rank.key, kind=Kind.ERROR, text="no torch"))
            continue
        norms = tuple(GradientNorm(step=step, norm=1.0 + rank.rank) for step in (1, 2))
        state = NumbersState(is_on=one[0], step=5, norms=norms)
        rows = (state,) if one[1] is None else (state, one[1])
        answers.append(RankAnswer(key=rank.key, kind=Kind.VALUE, text="", rows=rows))
    return answer_of(ranks, answers)


@pytest.mark.parametrize(
    ("given", "status", "ranks"),
    [
        ([(True, None), (True, None)], 0, []),
        ([(True, None), None], 0, []),
        ([(False, None), None], 6, []),
        ([(False, RECEIVED), (False, WRONG), (False, LATER)], 1, [1, 0, 2]),
    ],
)
def test_the_first_wrong_number_comes_first(
    given: list[tuple[bool, WrongNumber | None] | None], status: int, ranks: list[int]
) -> None:
    found = answer(*given)
    assert found.status == status
    assert [rank.rank for rank, _ in found.wrong] == ranks
    assert len(found.text().splitlines()) >= 1 + len(found.refusals)


def test_a_chart_has_the_range_of_the_ranks_at_each_step() -> None:
    assert answer((True, None), (True, None), (True, None)).curve == [(1, 1.0, 2.0, 3.0), (2, 1.0, 2.0, 3.0)]


@pytest.mark.parametrize(("origin", "suspect"), [*product(Origin, Suspect)])
def test_each_wrong_number_has_a_sentence(origin: Origin, suspect: Suspect) -> None:
    number = WrongNumber(step=3, suspect=suspect, name="up", origin=origin, weight="w", others="0,2")
    assert number.text.startswith("step 3: ")
    assert "{" not in number.text


@pytest.mark.parametrize("options", [{"exact": True}, {"exclude": ("a",)}, {"every": 2}, {"expression": "x"}])
def test_options_without_a_watch_are_refused(options: dict[str, object]) -> None:
    made = WatchOptions(**options)  # type: ignore[arg-type]
    made.check(made.question(["nan", "different"]))
    with pytest.raises(BadInput):
        made.check(made.question([]))


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [("train.py:3, loss, grads", True), ("loss", False), ("train.py:3", False), ("a.py:3, 1 +", False)],
)
def test_values_are_watched_for_nan_at_a_line(text: str, is_valid: bool) -> None:
    made = WatchOptions(expression=text)
    with nullcontext() if is_valid else pytest.raises(BadInput):
        made.check(made.question(["nan"]))
