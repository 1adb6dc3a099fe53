"""What is typed at PuDB's command line ends no process, can be interrupted, prints within bounds, leaves no file."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from dbg_agent.engines import faults
from dbg_agent.engines.pudb_command_line import PrintedTail
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.stops import SLOW_STEP_SECONDS
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.unit.agent.pudb_viewer import (
    SECONDS,
    Viewer,
    answer_of,
    asks,
    at_command_line,
    drive,
    in_thread,
    let_go,
    play,
    train,
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
def test_every_way_out_asks_first_and_staying_stays(viewer: Viewer, typed: str) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.does((typed.encode() + b"\r", LEAVE), (b"s", f"!{LEAVE}"), GOES_ON, (b"exit()\r", LEAVE), (b"c", ""))

    assert play(viewer, script) == 7


def test_whatever_else_is_raised_is_shown(viewer: Viewer) -> None:
    def script() -> None:
        at_command_line(viewer)
        for name in ("KeyboardInterrupt", "GeneratorExit", "ZeroDivisionError"):
            typed = "1/0" if name.startswith("Zero") else f"raise {name}"
            viewer.does((typed.encode() + b"\r", name), GOES_ON)
        viewer.type(CTRL_X + b"c")

    assert play(viewer, script) == 7


@pytest.mark.parametrize(("expression", "shown"), [("exit()", "can't be shown"), ("1/0", "<error>")])
def test_a_watch_that_would_end_the_process_is_shown_as_such(viewer: Viewer, expression: str, shown: str) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.does((CTRL_X + b"Vn", WATCH), (expression.encode() + b"\r", f"!{WATCH}"), (b"", shown))
        viewer.does((b"Cn", "> total += 1"), (b"c", ""))

    assert play(viewer, script) == 7


def test_a_breakpoints_condition_that_would_end_the_process_stops_there(viewer: Viewer) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.does((CTRL_X + b"jjbB", ""), (b"e", EDIT), (DOWN + b"exit()\r", f"!{EDIT}"), (b"Cc", ""))
        viewer.waits_for_stop(2)
        viewer.sees_current_line("total += 2")
        let_go(viewer)

    finish = drive(viewer, script)
    assert train(viewer.rank) == 7
    finish()


def keep_time(viewer: Viewer) -> None:
    """Keep time as the link's thread does: a signal that comes just before a wait begins has to be sent again."""

    def call_later(after: float, call: Callable[[], None]) -> None:
        timer = threading.Timer(after, call)
        timer.daemon = True
        timer.start()

    viewer.network.later = call_later


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
def test_what_never_ends_is_interrupted(viewer: Viewer, is_main: bool, forever: Callable[[], object], way: str) -> None:
    keep_time(viewer)
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
        let_go(viewer)

    assert play(viewer, script, program if is_main else partial(in_thread, program)) == 7


def test_a_value_that_never_shows_itself_is_interrupted_once_and_left_out_from_then_on(viewer: Viewer) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        begun.clear()
        viewer.look()
        has_begun()
        viewer.does((CTRL_C, "f: interrupted"), (b"nn", "> total += 2"), (b"", "f: EndlessInV"), (b"c", ""))

    assert play(viewer, script, partial(stop_with, EndlessInView())) == 7


def test_a_watch_that_never_ends_is_interrupted_once_and_not_evaluated_again(viewer: Viewer) -> None:
    def script() -> None:
        at_command_line(viewer)
        begun.clear()
        viewer.does((CTRL_X + b"Vn", WATCH), (b"f(0)\r", ""))
        has_begun()
        viewer.does((CTRL_C, "f(0): interrupted"), (b"Cn", "> total = 5"), (b"c", ""))

    assert play(viewer, script, partial(stop_with, loops)) == 7


def test_the_rank_is_told_as_running_meanwhile_and_questions_are_answered_at_once(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
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
        monkeypatch.setattr(faults, "SLOW_STEP_SECONDS", 0.0)
        for call in list(waits):
            call()
        report = rank.rank_report()
        assert (report.state, report.stepping) == (RankState.RUNNING, True)
        asks(viewer, Action.EVAL, 4, "1 + 1")
        asks(viewer, Action.CONTINUE, 5)
        asks(viewer, Action.COMMAND, 6, "n")
        for request in (3, 4, 5, 6):
            kind, text = answer_of(viewer, request)
            assert kind == Kind.RUNNING.value
            assert "test_pudb_command_line.py:" in text
        asks(viewer, Action.INTERRUPT, 7)
        viewer.sees("KeyboardInterrupt")
        # KeyboardInterrupt is on the screen before the command has ended, and the waits below end only once.
        viewer.wait_for(lambda: rank.rank_report().state is RankState.STOPPED, "the command's end")
        # PuDB may be drawing just now, which must not count as slow.
        monkeypatch.setattr(faults, "SLOW_STEP_SECONDS", SLOW_STEP_SECONDS)
        for call in list(waits):
            call()
        assert answer_of(viewer, 7)[1] == "stopped"
        assert rank.rank_report().state is RankState.STOPPED
        asks(viewer, Action.EVAL, 8, "f.__name__")
        assert answer_of(viewer, 8)[1] == "'loops'"
        let_go(viewer)

    assert play(viewer, script, partial(stop_with, loops)) == 7


def test_a_flood_of_output_shows_its_end_and_says_how_much_is_missing(viewer: Viewer) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.does((b"for i in range(20_000): print('line', i)\r", "line 19999"))
        pane = viewer.rank.debuggers.last.ui.cmdline_contents  # type: ignore[union-attr] # PuDB's
        lines = [row.base_widget.text for row in pane]
        first = next(number for number, line in enumerate(lines) if line.startswith("["))
        missing = int(lines[first][1:].split()[0])
        assert lines[first + 1 :] == [f"line {number}" for number in range(missing, 20_000)]
        assert len(lines) > 2000
        viewer.does((CTRL_X + b"n", "> total += 1"), (b"c", ""))

    assert play(viewer, script) == 7


def test_all_that_is_kept_of_what_is_printed_is_its_end(approved: Approved) -> None:
    printed = PrintedTail()
    for number in range(50_000):
        printed.write(f"{number}\n")
    first, *rest = printed.shown().splitlines()
    approved(first)
    assert rest == [str(number) for number in range(50_000 - len(rest), 50_000)]
    printed = PrintedTail()
    printed.write("x" * 1_000_000)
    assert len(printed.shown()) < 100_000


def test_what_is_printed_to_stderr_is_shown_and_other_threads_keep_their_own(
    viewer: Viewer, capfd: pytest.CaptureFixture[str]
) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.does((b"import sys; print('an' + 'swer', file=sys.stderr)\r", "answer"), (b"input()\r", "EOFError"))
        viewer.type(CTRL_X + b"c")

    before = sys.stdin, sys.stdout, sys.stderr
    assert play(viewer, script) == 7
    assert (sys.stdin, sys.stdout, sys.stderr) == before
    assert "answer" not in "".join(capfd.readouterr())


def test_tab_at_an_object_that_ends_the_process(viewer: Viewer) -> None:
    class Hostile:
        def __dir__(self) -> list[str]:
            sys.exit("in __dir__")

        def __getattr__(self, name: str) -> object:
            sys.exit(f"in {name}")

    def script() -> None:
        at_command_line(viewer)
        viewer.does((b"f.a\tf.\t", ""), GOES_ON, (CTRL_X + b"c", ""))

    assert play(viewer, script, partial(stop_with, Hostile())) == 7
