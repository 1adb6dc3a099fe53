"""A break-in leaves signal and trace function to the program."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from dbg_agent.questions.break_in import BREAK_IN_SIGNAL, BreakIn
from dbg_wire.messages import Action, Ask


@pytest.fixture
def break_in() -> Iterator[BreakIn]:
    nothing = cast("Any", None)
    break_in = BreakIn(nothing, nothing, nothing, nothing, nothing)
    break_in.install()
    assert signal.getsignal(BREAK_IN_SIGNAL) is not signal.SIG_DFL
    yield break_in
    signal.signal(BREAK_IN_SIGNAL, signal.SIG_DFL)


def test_the_signal_is_restored(break_in: BreakIn) -> None:
    break_in.uninstall()
    assert signal.getsignal(BREAK_IN_SIGNAL) is signal.SIG_DFL


def test_a_handler_set_later_by_the_program_is_kept(break_in: BreakIn) -> None:
    def of_the_program(*_: object) -> None:
        """Do nothing."""

    signal.signal(BREAK_IN_SIGNAL, of_the_program)
    break_in.uninstall()
    assert signal.getsignal(BREAK_IN_SIGNAL) is of_the_program


def test_the_answer_to_a_question_is_not_traced(break_in: BreakIn) -> None:
    def tracer(*_: object) -> None:
        """Trace nothing."""

    traced_by: list[object] = []
    ask = Ask(request=1, action=Action.EVAL, seconds=1.0, text="x")
    break_in._live.append((ask, lambda _frame: traced_by.append(sys.gettrace())))
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        break_in._answer_live(sys._getframe())
        traced_by.append(sys.gettrace())
    finally:
        sys.settrace(before)
    assert traced_by == [None, tracer]
