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
    answer = run_command(rank.debuggers, ask(text), sys._getframe(), None)
    assert isinstance(answer, Evaluated)
    return answer


def test_a_value_is_evaluated_in_the_frame() -> None:
    answer = value_of("[local + n for n in range(2)]")
    assert (answer.kind, answer.text) == (Kind.VALUE, "[5, 6]")
    assert answer.digest == value_of("[5, 6]").digest != ""


class Tensor:
    """A value that the program deletes."""


def test_an_evaluated_value_is_not_kept_alive_by_its_frame() -> None:
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
def test_an_error_of_the_expression_is_the_answer(text: str, shown: str) -> None:
    answer = value_of(text)
    assert answer.kind is Kind.ERROR
    assert answer.text.startswith(shown)


def test_printed_output_is_part_of_the_answer_and_the_streams_are_restored() -> None:
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
def test_the_output_of_a_command_is_the_answer(text: str, kind: Kind, shown: str) -> None:
    answer = command(text)
    assert (answer.kind, answer.text) == (kind, shown)


@pytest.mark.parametrize("text", ["q", "interact"])
def test_a_command_for_a_terminal_is_refused(approved: Approved, text: str) -> None:
    answer = command(text)
    assert answer.kind is Kind.ERROR
    approved(answer.text)


@given(st.text())
def test_texts_are_bounded_and_can_be_sent(text: str) -> None:
    shown = abridged(text * 40)
    assert len(shown) <= MAX_ANSWER
    shown.encode()


def test_digests_distinguish_texts_by_everything_but_addresses() -> None:
    one, other = "a" * 10_000 + "b" + "a" * 10_000, "a" * 10_000 + "c" + "a" * 10_000
    assert abridged(one) == abridged(other)
    assert digest_of(one) != digest_of(other)
    assert digest_of("<object object at 0x7f01020304>") == digest_of("<object object at 0x7f0a0b0c0d>")
    assert digest_of("0x1a2b3c4d") != digest_of("0x99887766"), "a number that a command prints is compared"
