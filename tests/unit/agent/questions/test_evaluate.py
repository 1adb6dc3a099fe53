"""Expressions and commands that a terminal sends to many ranks: how a frame evaluates them, and their answers."""

from __future__ import annotations

import sys
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.breakpoints.conditional_stop import evaluate_at
from dbg_agent.questions.evaluate import Evaluated, digest_of, evaluate
from dbg_agent.questions.passing_pdb import run_command
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_agent.values.record import MAX_ANSWER, abridged
from dbg_wire.messages import Action, Ask, Kind
from tests.conftest import Approved


def ask(text: str) -> Ask:
    return Ask(request=1, action=Action.EVAL, text=text, seconds=10.0)


def value_of(text: str, local: int = 5) -> Evaluated:
    return evaluate(ask(text), sys._getframe())


def command(text: str, local: int = 5) -> Evaluated:
    rank = Rank(Settings())
    said = run_command(rank.debuggers, ask(text), sys._getframe(), None)
    assert isinstance(said, Evaluated)
    return said


def test_a_value_is_that_of_the_frame() -> None:
    said = value_of("[local + n for n in range(2)]")
    assert (said.kind, said.text) == (Kind.VALUE, "[5, 6]")
    assert said.digest == value_of("[5, 6]").digest != ""


class Tensor:
    """A value that the program deletes."""


def test_a_frame_keeps_no_value_that_it_was_asked_for() -> None:
    tensor = Tensor()
    alive = weakref.ref(tensor)
    assert evaluate(ask("tensor is not None"), sys._getframe()).text == "True"
    assert evaluate_at(compile("tensor is not None", "<condition>", "eval"), sys._getframe(), lambda: 0) is True
    del tensor
    assert alive() is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nobody", "NameError: name 'nobody' is not defined"),
        ("1 +", "SyntaxError"),
        ("local = 3", "SyntaxError"),
        ("exit()", "SystemExit"),
        ("(_ for _ in ()).throw(BaseException)", "BaseException"),
    ],
)
def test_whatever_it_raises_is_the_answer(text: str, shown: str) -> None:
    said = value_of(text)
    assert said.kind is Kind.ERROR
    assert said.text.startswith(shown)


def test_what_it_prints_is_part_of_the_answer_and_streams_are_the_programs_own_again() -> None:
    before = sys.stdin, sys.stdout
    assert value_of("print('printed')").text == "printed"
    assert value_of("print('printed') or 3").text == "printed\n3"
    assert value_of("input()").text == "EOFError: EOF when reading a line"
    assert value_of("print(1 / 0)").kind is Kind.ERROR
    assert (sys.stdin, sys.stdout) == before


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("p local * 2", Kind.VALUE, "10"),
        ("pp {'a': local}", Kind.VALUE, "{'a': 5}"),
        ("whatis local", Kind.VALUE, "<class 'int'>"),
        ("p nobody", Kind.ERROR, "*** NameError: name 'nobody' is not defined"),
    ],
)
def test_a_command_answers_what_it_prints(text: str, kind: Kind, shown: str) -> None:
    said = command(text)
    assert (said.kind, said.text) == (kind, shown)


@pytest.mark.parametrize("text", ["q", "interact"])
def test_a_command_for_a_terminal_is_refused(approved: Approved, text: str) -> None:
    said = command(text)
    assert said.kind is Kind.ERROR
    approved(said.text)


@given(st.text())
def test_texts_are_bounded_and_can_be_sent(text: str) -> None:
    shown = abridged(text * 40)
    assert len(shown) <= MAX_ANSWER
    shown.encode()


def test_digests_tell_texts_apart_by_all_that_they_hold_but_addresses() -> None:
    one, other = "a" * 10_000 + "b" + "a" * 10_000, "a" * 10_000 + "c" + "a" * 10_000
    assert abridged(one) == abridged(other)
    assert digest_of(one) != digest_of(other)
    assert digest_of("<object object at 0x7f01020304>") == digest_of("<object object at 0x7f0a0b0c0d>")
    assert digest_of("0x1a2b3c4d") != digest_of("0x99887766"), "a number that a command prints is compared"
