"""The signal of a break-in belongs to the program again once the agent lets go of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any, cast

import pytest

from dbg_agent.rank.break_in import BREAK_IN_SIGNAL, BreakIn


@pytest.fixture
def break_in() -> Iterator[BreakIn]:
    break_in = BreakIn(cast("Any", None))
    break_in.install()
    assert signal.getsignal(BREAK_IN_SIGNAL) is not signal.SIG_DFL
    yield break_in
    signal.signal(BREAK_IN_SIGNAL, signal.SIG_DFL)


def test_the_signal_is_given_back(break_in: BreakIn) -> None:
    break_in.uninstall()
    assert signal.getsignal(BREAK_IN_SIGNAL) is signal.SIG_DFL


def test_a_handler_that_the_program_has_set_since_stays(break_in: BreakIn) -> None:
    def of_the_program(*_: object) -> None:
        """Do nothing."""

    signal.signal(BREAK_IN_SIGNAL, of_the_program)
    break_in.uninstall()
    assert signal.getsignal(BREAK_IN_SIGNAL) is of_the_program
