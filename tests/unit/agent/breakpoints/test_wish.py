"""Comparisons with a number of hits, as users type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.breakpoints.wish import NoHits, hits_of
from tests.conftest import Approved


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("3", [3, 4, 5, 6]),
        ("== 3", [3]),
        ("=3", [3]),
        (">= 5", [5, 6]),
        ("> 5", [6]),
        ("<2", [1]),
        ("<= 2", [1, 2]),
        ("% 2 == 0", [2, 4, 6]),
        ("%2==1", [1, 3, 5]),
        ("% 4", [4]),
    ],
)
def test_hits_are_counted_from_one(text: str, stops: list[int]) -> None:
    compare = hits_of(text)
    assert compare is not None
    assert [count for count in range(1, 7) if compare(count)] == stops


def test_no_text_means_every_hit() -> None:
    assert hits_of("  ") is None


@given(st.text() | st.from_regex(r"[=<>%! 0-9]{1,12}", fullmatch=True))
def test_any_other_text_is_refused_and_no_comparison_fails(text: str) -> None:
    try:
        compare = hits_of(text)
    except NoHits:
        return
    assert compare is None or compare(1) in (True, False)


def test_a_remainder_that_never_comes_is_refused(approved: Approved) -> None:
    with pytest.raises(NoHits) as caught:
        hits_of("% 3 == 5")
    approved(str(caught.value))


@pytest.mark.parametrize("text", ["== 0", "=0", "< 1", "<=0", "< 0"])
def test_a_comparison_that_no_hit_meets_is_refused(approved: Approved, text: str) -> None:
    with pytest.raises(NoHits) as caught:
        hits_of(text)
    approved(str(caught.value))
