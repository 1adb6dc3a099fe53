"""Real PuDB on a real stop: what a viewer sees, and what the program is left with."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

import pytest

from dbg_agent.process.imports import unwarned
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.inbox import ProgramRaised, RunJob
from dbg_wire.messages import Action
from dbg_wire.records.ranks import RankState
from tests.unit.agent.pdb_driver import train
from tests.unit.agent.pudb_viewer import Viewer, answer_of, answers_to, asks, drive, end_stop, keys, play

LEAVE = "Leave the debugger?"
ESCAPE, CTRL_X, CTRL_E, DOWN = b"\x1b", b"\x18", b"\x05", b"\x1b[B"


@pytest.mark.parametrize(
    "steps",
    [
        [(b"q", LEAVE), (ESCAPE, f"!{LEAVE}"), (DOWN, "Variables:")],
        [(b"q", LEAVE), (b"s", f"!{LEAVE}"), (b"n", "> total += 1")],
        [(b"!", ">>>"), (b"total * 1000 + 234\r", "1234"), (CTRL_X, "")],
        [(b"!", ">>>"), (b"train(rank) * 111\r", "777"), (CTRL_X, "")],
        [(b"o", "kept.log"), (b"\r", "!own terminal")],
        [(CTRL_E, "own terminal"), (b"\r", "!own terminal")],
        [(b"nnn", "> total += 3")],
    ],
    ids=["lone escape", "staying", "command line", "stop inside a stop", "o", "ctrl e", "three steps typed in one go"],
)
def test_keys_work_as_in_pudb(viewer: Viewer, steps: list[tuple[bytes, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.readlink", lambda _path: "/x/kept.log")
    assert keys(viewer, *steps) == 7
    assert viewer.rank.stops.number == 1


def test_the_program_is_unchanged_afterwards(viewer: Viewer) -> None:
    def state() -> tuple[object, ...]:
        handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGWINCH, signal.SIGTSTP)]
        streams = sys.stdin, sys.stdout, sys.stderr
        return handlers, streams, list(warnings.filters), set(vars(builtins)) - {"_"}

    before = state()
    assert keys(viewer, (b"nn", "> total += 2")) == 7
    assert state() == before


def test_the_programs_own_trace_function_is_restored(viewer: Viewer) -> None:
    def own(_frame: object, _event: str, _arg: object) -> None:
        return None

    def script() -> None:
        viewer.opens()
        viewer.type(b"c")

    finish = drive(viewer, script)
    before = sys.gettrace()
    sys.settrace(own)
    try:
        train(viewer.rank)
        assert sys.gettrace() is own
    finally:
        sys.settrace(before)
    finish()


def test_a_resize_is_drawn_at_once_also_inside_a_dialog(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.does((b"q", LEAVE))
        viewer.look(rows=40, columns=140)
        viewer.wait_for(
            lambda: len(viewer.display.display[0]) == 140 and viewer.display.display[39].strip() != "", "40 rows"
        )
        viewer.does((b"", LEAVE), (b"s", f"!{LEAVE}"), (b"c", ""))

    play(viewer, script)


def test_the_users_own_settings_are_read_and_not_written(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config" / "pudb" / "pudb.cfg"
    config.parent.mkdir(parents=True)
    config.write_text("[pudb]\nline_numbers = True\nshell = ipython\n")
    before = config.read_bytes()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    keys(viewer)
    assert config.read_bytes() == before
    assert [path.name for path in config.parent.iterdir()] == ["pudb.cfg"]


def test_breakpoints_are_reported_while_pudb_is_open(viewer: Viewer) -> None:
    def script() -> None:
        def types(keys: bytes, breakpoints: int) -> None:
            viewer.type(keys)
            viewer.wait_for(lambda: viewer.rank.rank_report().breakpoints == breakpoints, str(breakpoints))

        viewer.opens()
        types(b"jjb", 1)
        types(b"jb", 2)
        types(b"kb", 1)
        # In the list of breakpoints: edit, one down to the condition, and Enter for OK.
        viewer.does((b"B", ""), (b"e", "Edit Breakpoint"))
        viewer.type(DOWN + b"total < 0\r")
        viewer.does((b"q", LEAVE), (b"c", ""))

    assert play(viewer, script) == 7
    assert viewer.rank.rank_report().breakpoints == 0


def test_continue_from_outside_closes_open_dialogs(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.does((b"q", LEAVE))
        end_stop(viewer)

    assert play(viewer, script) == 7
    assert answer_of(viewer, 9)[0] == "value"


def test_the_screen_is_sent_as_text_without_an_attached_terminal(viewer: Viewer) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        asks(viewer, Action.SCREEN, 5)
        answer_of(viewer, 5)
        assert "rank.stopping.stop(" in str(answers_to(viewer, 5))
        assert "Variables:" in str(answers_to(viewer, 5))
        end_stop(viewer)

    play(viewer, script)


def test_stepping_onto_another_stop_keeps_the_stop_and_never_shows_our_code(viewer: Viewer) -> None:
    def twice(rank: Rank) -> int:
        rank.stopping.stop(sys._getframe(), "breakpoint")
        rank.stopping.stop(sys._getframe(), "breakpoint")
        return 5

    assert keys(viewer, (b"s", ""), (b"s", ""), (b"s", "> return 5"), program=twice) == 5
    assert viewer.rank.stops.number == 1


def test_b_on_the_line_of_the_stop_switches_it_off(viewer: Viewer) -> None:
    def loop(rank: Rank) -> int:
        count = 0
        for _ in range(5):
            rank.stopping.stop(sys._getframe(), "breakpoint")
            count += 1
        return count

    assert keys(viewer, (b"b", ""), program=loop) == 5
    assert viewer.rank.stops.number == 1


def test_sigint_in_a_stop_reaches_the_program_as_usual(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        # The signal comes once the thread only waits. Before that it may come in a finalizer, where Python drops what
        # a signal handler raises.
        late = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        viewer.rank.inbox.put(1, RunJob(late.start))

    finish = drive(viewer, script)
    with pytest.raises((KeyboardInterrupt, ProgramRaised)):
        train(viewer.rank)
    finish()
    assert viewer.rank.rank_report().state is RankState.RUNNING
    assert sys.gettrace() is None


# ------------------------------------------------------------------------------------------------- the import of PuDB


def test_the_programs_warnings_stay_errors_but_not_the_debuggers() -> None:
    before = list(warnings.filters)
    with unwarned():
        warnings.warn_explicit("odd", DeprecationWarning, "x.py", 1, module="urwid.escape")
        with pytest.raises(DeprecationWarning):
            warnings.warn_explicit("odd", DeprecationWarning, "x.py", 1, module="train")
    assert list(warnings.filters) == before
