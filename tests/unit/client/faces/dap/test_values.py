"""Numbers for frames and values: which are valid, and how many there are at most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.dap.values import Handles

OWNERS = st.sampled_from(["a", "b", "c"])


def test_the_same_thing_has_the_same_number_until_its_owner_moves() -> None:
    numbers: Handles[str] = Handles()
    first = numbers.number("a", 1, "-1")
    assert numbers.number("a", 1, "-1") == first
    assert numbers.find(first) == ("a", 1, "-1")
    second = numbers.number("a", 2, "-1")
    assert second != first
    assert numbers.find(first) is None
    assert numbers.find(second) == ("a", 2, "-1")


def test_what_is_no_number_stands_for_nothing() -> None:
    numbers: Handles[str] = Handles()
    numbers.number("a", 1, "-1")
    unknown: list[object] = [None, "1", 0, 99, []]
    assert [numbers.find(one) for one in unknown] == [None] * 5


def test_a_full_table_forgets_the_owner_that_was_asked_about_longest_ago() -> None:
    numbers: Handles[int] = Handles(most=3)
    old = numbers.number("a", 1, 0)
    kept = numbers.number("b", 1, 0)
    again = numbers.number("a", 1, 1)
    newest = numbers.number("c", 1, 0)
    assert numbers.find(kept) is None
    assert [numbers.find(one) is not None for one in (old, again, newest)] == [True, True, True]


def test_an_owner_that_fills_the_table_alone_begins_anew() -> None:
    numbers: Handles[int] = Handles(most=2)
    first = [numbers.number("a", 1, thing) for thing in range(2)]
    last = numbers.number("a", 1, 2)
    assert [numbers.find(one) for one in first] == [None, None]
    assert numbers.find(last) == ("a", 1, 2)


@given(st.lists(st.tuples(OWNERS, st.integers(0, 2), st.integers(0, 4)), max_size=60))
def test_a_number_is_of_one_thing_for_ever_and_the_table_is_bounded(asked: list[tuple[str, int, int]]) -> None:
    numbers: Handles[int] = Handles(most=6)
    given_out: dict[int, tuple[str, int, int]] = {}
    for one in asked:
        number = numbers.number(*one)
        assert given_out.setdefault(number, one) == one
        assert numbers.find(number) == one
        assert len(numbers) <= 6
        for known, thing in given_out.items():
            assert numbers.find(known) in (None, thing)
    # What an owner had in earlier versions is gone, and nothing of it stays behind.
    for owner in ("a", "b", "c"):
        numbers.number(owner, 3, 0)
    assert len(numbers) <= 3
