"""Questions about breakpoints and their answers, as they cross the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_BREAKPOINTS
from dbg_wire.line_breakpoints import (
    MARKER,
    BreakpointState,
    BreakpointsWish,
    BreakpointWish,
    LineOfFile,
    decode_breakpoints,
    decode_wish,
    encode_breakpoints,
    encode_wish,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FILES = TEXTS.map(lambda text: f"/{text}")
LINES = st.integers(1, 100_000)
WISHES = st.builds(BreakpointWish, file=FILES, line=LINES, condition=TEXTS, hits=TEXTS, log=TEXTS)
CLEARED = st.builds(LineOfFile, file=FILES, line=LINES)
STATES = st.builds(
    BreakpointState,
    file=FILES,
    asked=LINES,
    line=LINES,
    is_set=st.booleans(),
    problem=TEXTS.filter(str.isprintable),
    condition=TEXTS,
    hits=TEXTS,
    log=TEXTS,
    hits_so_far=st.integers(0, 1000),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["set", "clear", "file", "line", "x"]), inner),
)


@given(st.lists(CLEARED, max_size=3), st.lists(WISHES, max_size=3))
def test_a_wish_comes_as_it_was_sent(clear: list[LineOfFile], wishes: list[BreakpointWish]) -> None:
    wish = BreakpointsWish(clear=tuple(clear), set=tuple(wishes))
    assert decode_wish(encode_wish(wish)) == wish


@given(st.lists(STATES, max_size=3))
def test_an_answer_comes_as_it_was_sent(states: list[BreakpointState]) -> None:
    assert decode_breakpoints(encode_breakpoints(states)) == tuple(states)


def test_no_text_wishes_nothing() -> None:
    assert decode_wish("") == BreakpointsWish()


@given(st.text() | JSON.map(json.dumps))
def test_any_other_text_is_a_wish_or_refused(text: str) -> None:
    try:
        wish = decode_wish(text)
    except PeerError:
        return
    assert isinstance(wish, BreakpointsWish)


@given(st.lists(st.text() | JSON.map(json.dumps), max_size=3))
def test_any_other_rows_are_an_answer_or_refused(rows: list[str]) -> None:
    try:
        states = decode_breakpoints([MARKER, *rows])
    except PeerError:
        return
    assert all(isinstance(one, BreakpointState) for one in states)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "no wish for breakpoints"),
        ("[" * 100_000, "no wish for breakpoints"),
        ('{"set":[{"file":"train.py","line":3}]}', "not an absolute path"),
        ('{"set":[{"file":"/train.py","line":0}]}', "line"),
        ('{"set":[{"file":"/train.py"}]}', "lacks the field 'line'"),
        (json.dumps({"clear": [{"file": "/a", "line": 1}] * (MAX_BREAKPOINTS + 1)}), "101 elements, above 100"),
    ],
)
def test_a_wrong_wish_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(PeerError, match=why):
        decode_wish(text)


@pytest.mark.parametrize("rows", [[], ["other"], [MARKER, "[]"], [MARKER, "{}"], [MARKER, "no json"]])
def test_a_wrong_answer_is_refused(rows: list[str]) -> None:
    with pytest.raises(PeerError):
        decode_breakpoints(rows)
