"""Each target with what is read every day, with what was found, and with bytes made of both."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.target import Target
from tests.fuzz.targets import CORPUS, ODD, TARGETS, corpus_of, tokens_of, words_of
from tests.support.time_unit import seconds

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


MANY = 64 * 1024
"""Bytes of a long input: as many as come in one read."""


MANY_READS = 2 * 1024


MANY_PLACES = 500


def long_inputs(target: Target) -> list[bytes]:
    """Return each word and what the corpus holds again and again, in one read; and signs, one in each read."""
    words = words_of(target)
    repeated = [*words, *corpus_of(target)]
    signs = [word for word in words if len(word) == 1 and not word.isalnum()]
    return [
        *(b"\x00" + (one * (MANY // len(one) + 1))[:MANY] for one in repeated),
        *(b"\x01" + sign * MANY_READS for sign in signs),
    ]


@every_target
def test_the_corpus_has_no_findings(target: Target) -> None:
    for data in corpus_of(target):
        target.run(data)


@every_target
def test_odd_words_at_any_place_are_no_findings(target: Target) -> None:
    tokens = tokens_of(target.seeds[0])
    # Of very many places, most of which are alike, each gets some of the words, and each word gets into some of them.
    share = len(tokens) // MANY_PLACES + 1
    for at in range(len(tokens)):
        for odd in ODD[at % share :: share]:
            target.run(b"".join([*tokens[:at], odd, *tokens[at + 1 :]]))


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """Draw something of the corpus with a few of its tokens replaced, left out or doubled."""
    tokens = tokens_of(draw(st.sampled_from(corpus_of(target)))) or [b""]
    word = st.sampled_from(words_of(target)) | st.binary(max_size=8)
    for at, new in draw(st.lists(st.tuples(st.integers(0, len(tokens) - 1), st.lists(word, max_size=2)), max_size=4)):
        tokens[at] = b"".join(new)
    return b"".join(tokens)


@every_target
@settings(max_examples=50)
@given(data=st.data())
def test_only_documented_errors_are_raised(target: Target, data: st.DataObject) -> None:
    target.run(data.draw(inputs(target) | st.binary(max_size=200)))


@every_target
def test_long_inputs_take_a_bounded_time(target: Target) -> None:
    slow = []
    for data in long_inputs(target):
        began = time.thread_time()
        target.run(data)
        took = time.thread_time() - began
        if took > seconds(1):
            slow.append((took, data[:80]))
    assert slow == []


def test_each_folder_of_the_corpus_has_a_target() -> None:
    assert {folder.name for folder in CORPUS.iterdir() if folder.is_dir()} <= set(TARGETS)
