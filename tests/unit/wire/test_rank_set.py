"""Sets of rank numbers are read as people type them, and printed in one form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_wire.errors import BadTarget
from dbg_wire.rank_set import MAX_MEMBERS, MAX_RANK, MIN_STEP_MEMBERS, format_ranks, parse_ranks

unhurried = settings(deadline=None)

ranges = st.builds(range, st.integers(0, 60), st.integers(0, 90), st.integers(1, 9))
scattered = st.sets(st.integers(0, MAX_RANK), min_size=1, max_size=30)
crowded = st.lists(ranges, min_size=1, max_size=6).map(lambda some: set().union(*some)).filter(bool)
rank_sets = scattered | crowded

pieces = st.one_of(
    st.integers(0, 99).map(str),
    st.tuples(st.integers(0, 50), st.integers(50, 99)).map(lambda ab: f"{ab[0]}-{ab[1]}"),
    st.tuples(st.integers(0, 50), st.integers(50, 99), st.integers(1, 20)).map(lambda abs_: "{}-{}/{}".format(*abs_)),
)
typed_sets = st.lists(pieces, min_size=1, max_size=8).map(",".join)
near_sets = st.text(alphabet="0123456789,-/: x", max_size=12)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("5", [5]),
        ("007", [7]),
        ("0-3,5", [0, 1, 2, 3, 5]),
        (" 0-3, 5\n", [0, 1, 2, 3, 5]),
        ("0-20/8", [0, 8, 16]),
        (f"{MAX_RANK}", [MAX_RANK]),
    ],
)
def test_reads_every_form_of_ranks(text: str, numbers: list[int]) -> None:
    assert sorted(parse_ranks(text)) == numbers


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([5, 3, 3], "3,5"),
        ([0, 8], "0,8"),
        ([0, 8, 16], "0-16/8"),
        (range(0, 1024, 8), "0-1016/8"),
        ([0, 2, 4, 5, 6], "0,2,4-6"),
        ([0, 1, 5, 10, 15, 21], "0-1,5-15/5,21"),
        ([0, 5, 10, 20, 30, 40], "0-10/5,20-40/10"),
    ],
)
def test_prints_one_compact_form(numbers: list[int], text: str) -> None:
    assert format_ranks(numbers) == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "''"),
        ("0-3,", "'0-3,'"),
        ("1,,2", "'1,,2'"),
        ("1,x,2", "'x'"),
        ("-1", "'-1'"),
        ("1-", "'1-'"),
        (":5", "':5'"),
        ("5-3", "'5-3'"),
        ("7,4:8", "'4:8'"),
        ("0-9/0", "'0-9/0'"),
        ("٣", "'٣'"),
        ("0-3\x1b[2J", r"'0-3\x1b[2J'"),
        (str(MAX_RANK + 1), str(MAX_RANK + 1)),
        ("0-5/99999999", "99999999"),
    ],
)
def test_refuses_ranks_by_name(text: str, named: str) -> None:
    with pytest.raises(BadTarget) as caught:
        parse_ranks(text)
    assert named in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["0-9999999", "0-999999,5", "5,5-999999,0-5"])
def test_refuses_more_ranks_than_it_holds(text: str) -> None:
    with pytest.raises(BadTarget, match=str(MAX_MEMBERS)):
        parse_ranks(text)


def test_checks_the_size_before_it_expands() -> None:
    # Expanding all of these would take 10 TB.
    with pytest.raises(BadTarget, match="0-9999999"):
        parse_ranks(",".join(["0-9999999"] * 1_000_000))


def test_refuses_a_number_of_many_digits_with_a_short_message() -> None:
    with pytest.raises(BadTarget, match="too large") as caught:
        parse_ranks("9" * 100_000)
    assert len(str(caught.value)) < 200


@unhurried
@given(rank_sets)
def test_reads_what_it_prints(numbers: set[int]) -> None:
    assert parse_ranks(format_ranks(numbers)) == frozenset(numbers)


@unhurried
@given(typed_sets)
def test_prints_equal_sets_equally(text: str) -> None:
    ranks = parse_ranks(text)
    assert format_ranks(parse_ranks(format_ranks(ranks))) == format_ranks(ranks) == format_ranks(reversed(list(ranks)))


@unhurried
@given(rank_sets)
def test_prints_pieces_in_order_and_only_long_steps(numbers: set[int]) -> None:
    text = format_ranks(numbers)
    printed = [sorted(parse_ranks(piece)) for piece in text.split(",")]
    assert [number for members in printed for number in members] == sorted(numbers)
    assert all(len(parse_ranks(piece)) >= MIN_STEP_MEMBERS for piece in text.split(",") if "/" in piece)
    assert len(text) <= len(",".join(map(str, sorted(numbers))))


@unhurried
@given(st.text(max_size=20) | near_sets)
def test_reads_any_text_or_refuses_it_in_printable_text(text: str) -> None:
    ranks = ranks_or_refused(text)
    if isinstance(ranks, BadTarget):
        assert str(ranks).isprintable()
    else:
        assert 0 < len(ranks) <= MAX_MEMBERS
        assert max(ranks) <= MAX_RANK


def ranks_or_refused(text: str) -> frozenset[int] | BadTarget:
    try:
        return parse_ranks(text)
    except BadTarget as error:
        return error
