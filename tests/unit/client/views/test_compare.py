from __future__ import annotations

import pytest

from dbg_client.views.compare import (
    Comparison,
    compare_answers,
    comparison_document,
    load_answers,
    save_answers,
    show_comparison,
)
from dbg_client.views.groups import RankAndAnswer
from dbg_client.views.naming import Naming
from dbg_wire.errors import BadInput
from dbg_wire.messages import Kind
from tests.unit.client.views.test_groups import said


def naming(answers: list[RankAndAnswer]) -> Naming:
    return Naming([rank for rank, _ in answers])


def compared(
    before: list[RankAndAnswer], now: list[RankAndAnswer], *, exact: bool = False, tolerance: float | None = None
) -> Comparison:
    saved = load_answers(save_answers("loss", before, naming(before)), "f")
    return compare_answers(saved, now, naming(now), exact=exact, tolerance=tolerance)


def test_what_changed_is_named_and_what_did_not_is_counted() -> None:
    before, now = said("0.5", "0.5", "0.5", "0.25"), said("0.5", "0.75", "0.75", "0.25")

    comparison = compared(before, now)

    assert comparison.differs
    assert comparison_document(comparison, "f", naming(now)) == {
        "file": "f",
        "command": "loss",
        "equal": "0,3",
        "changed": [{"ranks": "1-2", "count": 2, "before": "0.5", "now": "0.75"}],
        "new": "",
        "missing": "",
    }
    assert show_comparison(comparison, "f", naming(now)) == (
        "against f (loss): 2 changed, 2 equal\n  1-2  0.5 -> 0.75\n"
    )


def test_equal_answers_do_not_differ_in_another_job_and_process() -> None:
    comparison = compared(said("0.5", (Kind.ERROR, "NameError: x")), said("0.5", (Kind.ERROR, "NameError: x")))

    assert not comparison.differs


def test_ranks_on_one_side_alone_are_new_or_missing() -> None:
    before = said("1", "1", (Kind.SILENT, "no answer"))
    now = [*said("1", (Kind.RUNNING, "")), *said("1", first=2)]

    comparison = compared(before, now)

    assert comparison.differs
    assert [rank.rank for rank in comparison.new] == [2]
    assert comparison.missing == ("1",)
    assert "1 new, 1 missing" in show_comparison(comparison, "f", naming(now))


def test_an_exception_is_another_answer_than_a_value_of_the_same_text() -> None:
    assert compared(said("x"), said((Kind.ERROR, "x"))).differs


def test_addresses_count_only_with_exact_and_floats_as_far_as_tolerated() -> None:
    assert not compared(said("<A at 0x7f01>"), said("<A at 0x7f02>")).differs
    assert compared(said("<A at 0x7f01>"), said("<A at 0x7f02>"), exact=True).differs
    assert compared(said("0.5"), said("0.500001")).differs
    assert not compared(said("0.5"), said("0.500001"), tolerance=1e-3).differs


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema":2}', '{"schema":1}', '{"schema":1,"command":"x","answers":[1]}', "[" * 9999],
)
def test_a_file_of_something_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadInput, match="my-file"):
        load_answers(text, "my-file")


def test_what_a_file_says_can_not_act_on_the_terminal() -> None:
    evil = "\x1b[2J\n"
    now = said("x")
    text = show_comparison(compared(said(evil), now), evil, naming(now))

    assert all(line.isprintable() for line in text.splitlines())
    assert len(text.splitlines()) == 2
