"""What is typed at PuDB's command line ends no process, can be interrupted, prints within bounds, leaves no file."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from dbg_agent.rank.rank import Rank
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import RankState
from tests.unit.agent.pdb_driver import SECONDS, call_later
from tests.unit.agent.pudb_viewer import (
    Viewer,
    answer_of,
    asks,
    at_command_line,
    end_stop,
    in_thread,
    keys,
    play,
)

LEAVE, WATCH, EDIT = "Leave the debugger?", "Add Watch Expression", "Edit Breakpoint"
CTRL_C, CTRL_U, CTRL_X, DOWN = b"\x03", b"\x15", b"\x18", b"\x1b[B"

GOES_ON = (CTRL_U + b"617 * 2\r", "1234")
"""The command line takes a command, and shows its result."""

begun = threading.Event()
"""Set by each endless call, once it runs."""


def loops(_self: object = None) -> str:
    begun.set()
    while True:
        pass


def prints() -> None:
    begun.set()
    while True:
        print("line")  # noqa: T201 - at PuDB's command line


def sleeps() -> None:
    begun.set()
    time.sleep(1000)


Endless = type("Endless", (), {"__repr__": loops})
EndlessInView = type("EndlessInView", (), {"safely_stringify_for_pudb": loops})


def has_begun() -> None:
    assert begun.wait(SECONDS)
    begun.clear()


def stop_with(value: object, rank: Rank) -> int:
    """Stop with this value in a variable, and go on."""
    f = value
    del value
    rank.stopping.stop(sys._getframe(), "breakpoint")
    total = 5
    total += 2
    del f
    return total


@pytest.mark.parametrize("typed", ["exit()", "quit()", "raise SystemExit(3)", "import sys; sys.exit('x')"])
def test_every_exit_asks_first_and_can_be_declined(viewer: Viewer, typed: str) -> None:
    stays = [(typed.encode() + b"\r", LEAVE), (b"s", f"!{LEAVE}")]
    assert keys(viewer, (b"!", ""), *stays, GOES_ON, (b"exit()\r", LEAVE)) == 7


@pytest.mark.parametrize(
    ("is_main", "forever", "way"),
    # Python interrupts waits in C code in the main thread alone.
    [
        (True, loops, "-i"),
        (True, prints, "ctrl c"),
        (True, sleeps, "ctrl c"),
        (False, loops, "ctrl c"),
        (False, prints, "-i"),
        (False, Endless, "ctrl c"),
    ],
)
def test_endless_commands_are_interrupted(
    viewer: Viewer, is_main: bool, forever: Callable[[], object], way: str
) -> None:
    # A signal that comes just before a wait begins has to be sent again.
    viewer.network.later = call_later
    program = partial(stop_with, forever)

    def script() -> None:
        at_command_line(viewer)
        begun.clear()
        viewer.type(b"f()\r")
        has_begun()
        if way == "-i":
            asks(viewer, Action.INTERRUPT, 5)
        else:
            viewer.type(CTRL_C)
        viewer.does((b"", "KeyboardInterrupt"), GOES_ON)
        end_stop(viewer)

    assert play(viewer, script, program if is_main else partial(in_thread, program)) == 7


def test_the_rank_is_reported_running_during_a_command_and_answers_at_once(
    viewer: Viewer,
) -> None:
    rank = viewer.rank
    # No link keeps time here: the test ends the waits itself.
    waits: list[Callable[[], None]] = []
    viewer.network.later = lambda seconds, call: waits.append(call)

    def script() -> None:
        at_command_line(viewer)
        begun.clear()
        viewer.type(b"f()\r")
        has_begun()
        asks(viewer, Action.EVAL, 3, "1 + 1")
        # From here on the command counts as begun long ago.
        for call in list(waits):
            call()
        report = rank.rank_report()
        assert (report.state, report.stepping) == (RankState.RUNNING, True)
        asks(viewer, Action.EVAL, 4, "1 + 1")
        asks(viewer, Action.CONTINUE, 5)
        asks(viewer, Action.COMMAND, 6, "n")
        for request in (4, 5, 6):
            kind, text = answer_of(viewer, request)
            assert kind == Kind.RUNNING.value
            assert "test_pudb_command_line.py:" in text
        asks(viewer, Action.INTERRUPT, 7)
        viewer.sees("KeyboardInterrupt")
        # KeyboardInterrupt is on the screen before the command has ended, and the waits below end only once.
        viewer.wait_for(lambda: rank.rank_report().state is RankState.STOPPED, "the command's end")
        # It was asked while the command was short, and has waited for its end.
        assert answer_of(viewer, 3) == ("value", "2")
        assert rank.rank_report().state is RankState.STOPPED
        asks(viewer, Action.EVAL, 8, "f.__name__")
        assert answer_of(viewer, 8)[1] == "'loops'"
        end_stop(viewer)

    assert play(viewer, script, partial(stop_with, loops)) == 7


def test_stderr_output_is_shown_and_other_threads_keep_their_streams(
    viewer: Viewer, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdin, sys.stdout, sys.stderr
    prints = (b"!import sys; print('an' + 'swer', file=sys.stderr)\r", "answer")
    assert keys(viewer, prints, (b"input()\r", "EOFError"), (CTRL_X, "")) == 7
    assert (sys.stdin, sys.stdout, sys.stderr) == before
    assert "answer" not in "".join(capfd.readouterr())
