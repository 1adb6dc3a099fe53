"""What is typed at PuDB's command line ends no process, can be interrupted, prints within bounds, leaves no file."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest

from dbg_agent.engines import faults
from dbg_agent.engines.pudb_command_line import PrintedTail
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.stops import SLOW_STEP_SECONDS
from dbg_wire.messages import Action, Kind
from tests.conftest import Approved
from tests.unit.agent.pudb_viewer import SECONDS, Viewer, answer_of, asks, drive, let_go, play

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


def waits() -> None:
    begun.set()
    threading.Event().wait(1000)


Endless = type("Endless", (), {"__repr__": loops})
EndlessInView = type("EndlessInView", (), {"safely_stringify_for_pudb": loops})

FOREVER = [loops, prints, sleeps, waits, Endless]
WAITS = [sleeps, waits]


def at_command_line(viewer: Viewer) -> None:
    begun.clear()
    viewer.waits_for_stop(1)
    viewer.look()
    viewer.sees_current_line("rank.stopping.stop(")
    viewer.type(b"!")


def has_begun() -> None:
    assert begun.wait(SECONDS)
    begun.clear()


def keep_time(viewer: Viewer) -> None:
    """Keep time as the link's thread does: a signal that comes just before a wait begins has to be sent again."""

    def call_later(after: float, call: Callable[[], None]) -> None:
        timer = threading.Timer(after, call)
        timer.daemon = True
        timer.start()

    viewer.network.later = call_later


@pytest.mark.parametrize("typed", ["exit()", "quit()", "raise SystemExit(3)", "import sys; sys.exit('x')"])
def test_every_way_out_asks_first_and_staying_stays(viewer: Viewer, typed: str) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.type(typed.encode() + b"\r")
        viewer.sees("Leave the debugger?")
        viewer.type(b"s")
        viewer.sees_no("Leave the debugger?")
        viewer.type(b"total * 1000 + 234\r")
        viewer.sees("1234")
        viewer.type(b"exit()\r")
        viewer.sees("Leave the debugger?")
        viewer.type(b"c")

    assert play(viewer, script) == 7
    assert viewer.rank.program.warned == set()


@pytest.mark.parametrize("typed", ["raise KeyboardInterrupt", "raise GeneratorExit", "raise RecursionError", "1/0"])
def test_whatever_else_is_raised_is_shown(viewer: Viewer, typed: str) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.type(typed.encode() + b"\r")
        viewer.sees("Error" if "Error" in typed or "/" in typed else typed.split()[1])
        viewer.type(b"\x18")
        viewer.type(b"c")

    assert play(viewer, script) == 7


@pytest.mark.parametrize("expression", ["exit()", "1/0"])
def test_a_watch_that_would_end_the_process_is_shown_as_such(viewer: Viewer, expression: str) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"\x18Vn")
        viewer.sees("Add Watch Expression")
        viewer.type(expression.encode() + b"\r")
        viewer.sees_no("Add Watch Expression")
        viewer.sees("<error>" if expression == "1/0" else "can't be shown")
        viewer.type(b"Cn")
        viewer.sees_current_line("total += 1")
        viewer.type(b"c")

    assert play(viewer, script) == 7
    assert viewer.rank.program.warned == set()


def test_a_breakpoints_condition_that_would_end_the_process_stops_there(viewer: Viewer) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"\x18jjbB")
        viewer.type(b"e")
        viewer.sees("Edit Breakpoint")
        viewer.type(b"\x1b[Bexit()\r")
        viewer.sees_no("Edit Breakpoint")
        viewer.type(b"Cc")
        viewer.waits_for_stop(2)
        viewer.sees_current_line("total += 2")
        let_go(viewer)

    assert play(viewer, script) == 7


def in_main(program: Callable[[Rank], int], rank: Rank) -> int:
    return program(rank)


def in_thread(program: Callable[[Rank], int], rank: Rank) -> int:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(program(rank)))
    thread.start()
    thread.join(60)
    return results[0]


@pytest.mark.parametrize(
    ("where", "forever"),
    # Python interrupts waits in C code in the main thread alone.
    [(in_main, forever) for forever in FOREVER] + [(in_thread, forever) for forever in FOREVER if forever not in WAITS],
)
@pytest.mark.parametrize("way", ["ctrl c", "-i"])
def test_what_never_ends_is_interrupted(
    viewer: Viewer, where: Callable[[Callable[[Rank], int], Rank], int], forever: Callable[[], object], way: str
) -> None:
    keep_time(viewer)

    def program(rank: Rank) -> int:
        f = forever
        rank.stopping.stop(sys._getframe(), "breakpoint")
        del f
        return 7

    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"f()\r")
        has_begun()
        if way == "-i":
            asks(viewer, Action.INTERRUPT, 5)
        else:
            viewer.type(b"\x03")
        viewer.sees("KeyboardInterrupt")
        viewer.type(b"\x15617 * 2\r")
        viewer.sees("1234")
        let_go(viewer)

    finish = drive(viewer, script)
    assert where(program, viewer.rank) == 7
    finish()
    assert viewer.rank.program.warned == set()


def test_a_value_that_never_shows_itself_is_interrupted_once_and_left_out_from_then_on(viewer: Viewer) -> None:
    def program(rank: Rank) -> int:
        endless = EndlessInView()
        rank.stopping.stop(sys._getframe(), "breakpoint")
        total = 5
        total += 2
        del endless
        return total

    def script() -> None:
        viewer.waits_for_stop(1)
        begun.clear()
        viewer.look()
        has_begun()
        viewer.type(b"\x03")
        viewer.sees("endless: interrupted")
        viewer.type(b"nn")
        viewer.sees_current_line("total += 2")
        viewer.sees("endless: EndlessInV")
        viewer.type(b"c")

    assert play(viewer, script, program) == 7


def test_a_watch_that_never_ends_is_interrupted_once_and_not_evaluated_again(viewer: Viewer) -> None:
    def program(rank: Rank) -> int:
        f = loops
        rank.stopping.stop(sys._getframe(), "breakpoint")
        total = 7
        del f
        return total

    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"\x18Vn")
        viewer.sees("Add Watch Expression")
        viewer.type(b"f(0)\r")
        has_begun()
        viewer.type(b"\x03")
        viewer.sees("f(0): interrupted")
        viewer.type(b"Cn")
        viewer.sees_current_line("total = 7")
        viewer.type(b"c")

    assert play(viewer, script, program) == 7


def test_the_rank_is_told_as_running_meanwhile_and_questions_are_answered_at_once(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = viewer.rank
    # No link keeps time here: the test ends the waits itself.
    waits: list[Callable[[], None]] = []
    viewer.network.later = lambda seconds, call: waits.append(call)

    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"import tests.unit.agent.engines.test_pudb_command_line as t; t.loops()\r")
        has_begun()
        asks(viewer, Action.EVAL, 3, "1 + 1")
        # From here on the command counts as begun long ago.
        monkeypatch.setattr(faults, "SLOW_STEP_SECONDS", 0.0)
        for call in list(waits):
            call()
        report = rank.rank_report()
        assert (report.state.value, report.stepping) == ("running", True)
        assert f'"{Kind.RUNNING.value}"' in answer_of(viewer, 3)
        asks(viewer, Action.EVAL, 4, "1 + 1")
        asks(viewer, Action.CONTINUE, 5)
        asks(viewer, Action.COMMAND, 6, "n")
        for request in (4, 5, 6):
            assert "running, " in answer_of(viewer, request)
            assert "test_pudb_command_line.py:" in answer_of(viewer, request)
        asks(viewer, Action.INTERRUPT, 7)
        viewer.sees("KeyboardInterrupt")
        # KeyboardInterrupt is on the screen before the command has ended, and the waits below end only once.
        viewer.wait_for(lambda: rank.rank_report().state.value == "stopped", "the command's end")
        # PuDB may be drawing just now, which must not count as slow.
        monkeypatch.setattr(faults, "SLOW_STEP_SECONDS", SLOW_STEP_SECONDS)
        for call in list(waits):
            call()
        assert '"stopped"' in answer_of(viewer, 7)
        assert rank.rank_report().state.value == "stopped"
        asks(viewer, Action.EVAL, 8, "total + 41")
        assert '"42"' in answer_of(viewer, 8)
        let_go(viewer)

    assert play(viewer, script) == 7


def test_a_flood_of_output_shows_its_end_and_says_how_much_is_missing(viewer: Viewer) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"for i in range(100_000): print('line', i)\r")
        viewer.sees("line 99999")
        pane = viewer.rank.debuggers.last.ui.cmdline_contents  # type: ignore[union-attr] # PuDB's
        lines = [row.base_widget.text for row in pane]
        first = next(number for number, line in enumerate(lines) if line.endswith(" out]"))
        missing = int(lines[first][1:].split()[0])
        assert lines[first + 1 :] == [f"line {number}" for number in range(missing, 100_000)]
        assert len(lines) > 2000
        viewer.type(b"\x18n")
        viewer.sees_current_line("total += 1")
        viewer.type(b"c")

    assert play(viewer, script) == 7


def test_what_is_printed_to_stderr_is_shown_and_other_threads_keep_their_own(
    viewer: Viewer, capfd: pytest.CaptureFixture[str]
) -> None:
    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"import sys; print('an' + 'swer', file=sys.stderr)\r")
        viewer.sees("answer")
        viewer.type(b"input()\r")
        viewer.sees("EOFError")
        viewer.type(b"\x18c")

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

    def program(rank: Rank) -> int:
        hostile = Hostile()
        rank.stopping.stop(sys._getframe(), "breakpoint")
        del hostile
        return 7

    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"hostile.a\thostile.\t")
        viewer.type(b"\x15617 * 2\r")
        viewer.sees("1234")
        viewer.type(b"\x18c")

    assert play(viewer, script, program) == 7
    assert viewer.rank.program.warned == set()


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
