"""Real PuDB on a real stop: what a viewer sees, and what the program is left with."""

from __future__ import annotations

import builtins
import importlib
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

import pytest

from dbg_agent.engines.faults import unwarned
from dbg_agent.engines.pudb_import import doing_without
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.inbox import ProgramRaised, RunJob
from dbg_wire.messages import Action, Ask
from dbg_wire.records.ranks import Breakpoint, RankState
from dbg_wire.states import StopPhase
from tests.unit.agent.pudb_viewer import SECONDS, Viewer, drive, let_go, play, train


def test_steps_typed_in_one_go_are_three_steps_and_the_program_is_left_as_before(viewer: Viewer) -> None:
    before = (
        signal.getsignal(signal.SIGINT),
        signal.getsignal(signal.SIGWINCH),
        signal.getsignal(signal.SIGTSTP),
        sys.stdin,
        sys.stdout,
        sys.stderr,
        list(warnings.filters),
        set(vars(builtins)),
    )

    def script() -> None:
        viewer.opens()
        viewer.type(b"nnn")
        viewer.sees_current_line("total += 3")
        viewer.type(b"c")

    finish = drive(viewer, script)
    assert train(viewer.rank) == 7
    assert sys.gettrace() is None
    finish()
    after = (
        signal.getsignal(signal.SIGINT),
        signal.getsignal(signal.SIGWINCH),
        signal.getsignal(signal.SIGTSTP),
        sys.stdin,
        sys.stdout,
        sys.stderr,
        list(warnings.filters),
        set(vars(builtins)) - {"_"},
    )
    assert after == (*before[:-1], before[-1] - {"_"})


def test_a_resize_is_drawn_at_once_also_inside_a_dialog(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"q")
        viewer.sees("Leave the debugger?")
        viewer.look(rows=40, columns=140)
        viewer.wait_for(
            lambda: len(viewer.display.display[0]) == 140 and viewer.display.display[39].strip() != "", "40 rows"
        )
        viewer.sees("Leave the debugger?")
        viewer.type(b"s")
        viewer.sees_no("Leave the debugger?")
        viewer.type(b"c")

    play(viewer, script)


def test_no_welcome_takes_keys_where_the_program_has_loaded_pudb_itself_and_it_is_not_written_as_seen(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pudb import settings

    configuration = settings.load_config()
    monkeypatch.setitem(configuration, "seen_welcome", "a")

    def script() -> None:
        viewer.opens()
        viewer.type(b"n")
        viewer.sees_current_line("total += 1")
        viewer.type(b"c")

    play(viewer, script)
    monkeypatch.setattr(settings, "XDG_CONFIG_HOME", str(tmp_path))
    settings.save_config(configuration)
    assert "seen_welcome = a\n" in (tmp_path / "pudb" / "pudb.cfg").read_text()


def test_a_wider_pane_is_not_written_to_the_home_where_the_program_has_loaded_pudb_itself(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pudb import settings

    configuration = settings.load_config()
    monkeypatch.setitem(configuration, "sidebar_width", 0.5)
    monkeypatch.setattr(settings, "XDG_CONFIG_HOME", str(tmp_path / "configuration"))

    def script() -> None:
        viewer.opens()
        viewer.type(b"V+C")
        viewer.type(b"n")
        viewer.sees_current_line("total += 1")
        viewer.type(b"c")

    play(viewer, script)
    assert configuration["sidebar_width"] != 0.5
    assert not (tmp_path / "configuration").exists()


def test_q_asks_and_continue_takes_the_breakpoints_along(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"jjb")
        viewer.wait_for(lambda: viewer.rank.rank_report().breakpoints == 1, "a breakpoint")
        viewer.type(b"q")
        viewer.sees("Leave the debugger?")
        viewer.type(b"c")

    assert play(viewer, script) == 7
    assert sys.gettrace() is None
    assert viewer.rank.rank_report().breakpoints == 0


def test_breakpoints_are_told_while_pudb_is_open_and_kept_when_it_lets_the_rank_go(viewer: Viewer) -> None:
    first = train.__code__.co_firstlineno + 4

    def waits_for(*breakpoints: Breakpoint) -> None:
        viewer.wait_for(lambda: viewer.rank.rank_report().user_breakpoints == breakpoints, repr(breakpoints))

    def script() -> None:
        viewer.opens()
        viewer.type(b"jjb")
        plain = Breakpoint(file=train.__code__.co_filename, line=first)
        waits_for(plain)
        viewer.type(b"jb")
        waits_for(plain, Breakpoint(file=train.__code__.co_filename, line=first + 1))
        viewer.type(b"kb")
        waits_for(Breakpoint(file=train.__code__.co_filename, line=first + 1))
        # In the list of breakpoints: edit, one down to the condition, and Enter for OK.
        viewer.type(b"B")
        viewer.type(b"e")
        viewer.sees("Edit Breakpoint")
        viewer.type(b"\x1b[Btotal < 0\r")
        waits_for(Breakpoint(file=train.__code__.co_filename, line=first + 1, condition="total < 0"))
        viewer.type(b"q")
        viewer.sees("Leave the debugger?")
        viewer.type(b"c")

    assert play(viewer, script) == 7
    kept = (Breakpoint(file=train.__code__.co_filename, line=first + 1, condition="total < 0"),)
    report = viewer.rank.rank_report()
    assert (report.breakpoints, report.user_breakpoints) == (0, kept)


def test_a_breakpoint_stops_again_as_a_new_stop(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"jjbc")
        viewer.waits_for_stop(2)
        viewer.sees_current_line("total += 2")
        viewer.type(b"bc")

    assert play(viewer, script) == 7
    assert sys.gettrace() is None


def test_expressions_are_evaluated_in_the_inner_shell(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"!")
        viewer.type(b"total * 1000 + 234\r")
        viewer.sees("1234")
        viewer.type(b"\x18")
        viewer.type(b"c")

    play(viewer, script)


@pytest.mark.parametrize("key", [b"o", b"\x05"])
def test_keys_that_need_the_ranks_own_terminal_say_so(viewer: Viewer, key: bytes) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(key)
        viewer.sees("own terminal")
        viewer.type(b"\r")
        viewer.sees_no("own terminal")
        viewer.type(b"c")

    play(viewer, script)


def test_a_lone_escape_is_a_key(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"q")
        viewer.sees("Leave the debugger?")
        viewer.type(b"\x1b")
        viewer.sees_no("Leave the debugger?")
        viewer.type(b"\x1b[B")
        viewer.type(b"c")

    play(viewer, script)


def test_continue_from_outside_leaves_through_open_dialogs_and_drops_what_was_typed_ahead(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"q")
        viewer.sees("Leave the debugger?")
        let_go(viewer)

    assert play(viewer, script) == 7
    assert sys.gettrace() is None
    assert any('"text":"continued"' in answer for answer in viewer.answers)


def test_the_screen_is_told_as_text_without_anybody_attached(viewer: Viewer) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.rank.from_broker.on_message(Ask(request=5, action=Action.SCREEN))
        viewer.wait_for(lambda: any('"request":5' in answer for answer in viewer.answers), "the screen")
        let_go(viewer)

    play(viewer, script)
    screen = next(answer for answer in viewer.answers if '"request":5' in answer)
    assert "rank.stopping.stop(" in screen
    assert "Variables:" in screen


def test_a_stop_outside_the_main_thread(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"n")
        viewer.sees_current_line("total += 1")
        viewer.type(b"c")

    finish = drive(viewer, script)
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(train(viewer.rank)))
    thread.start()
    thread.join(SECONDS)
    finish()
    assert results == [7]


def test_two_threads_at_once_get_one_stop_each(viewer: Viewer) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.wait_for(lambda: viewer.rank.stops.queued == 1, "a queued thread")
        viewer.look()
        viewer.sees_current_line("rank.stopping.stop(")
        viewer.type(b"nn")
        viewer.sees_current_line("total += 2")
        viewer.type(b"c")
        viewer.waits_for_stop(2)
        viewer.sees_current_line("rank.stopping.stop(")
        viewer.type(b"c")

    finish = drive(viewer, script)
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(train(viewer.rank))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    finish()
    assert results == [7, 7]


def test_a_stop_inside_a_stop_does_nothing(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        viewer.type(b"!")
        viewer.type(b"train(rank) * 111\r")
        viewer.sees("777")
        viewer.type(b"\x18")
        viewer.type(b"c")

    assert play(viewer, script) == 7


def test_stepping_onto_another_stop_keeps_the_stop_and_never_shows_our_inside(viewer: Viewer) -> None:
    def twice(rank: Rank) -> int:
        rank.stopping.stop(sys._getframe(), "breakpoint")
        rank.stopping.stop(sys._getframe(), "breakpoint")
        return 5

    def script() -> None:
        viewer.opens()
        for _ in range(3):
            viewer.type(b"s")
        viewer.sees_current_line("return 5")
        viewer.type(b"c")

    assert play(viewer, script, twice) == 5
    assert viewer.rank.stops.number == 1


def test_b_on_the_line_of_the_stop_switches_it_off(viewer: Viewer) -> None:
    def loop(rank: Rank) -> int:
        count = 0
        for _ in range(5):
            rank.stopping.stop(sys._getframe(), "breakpoint")
            count += 1
        return count

    def script() -> None:
        viewer.opens()
        viewer.type(b"bc")

    assert play(viewer, script, loop) == 5
    assert viewer.rank.stops.number == 1


def test_the_programs_own_trace_function_is_back_afterwards(viewer: Viewer) -> None:
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


def test_sigint_in_a_stop_reaches_the_program_as_always(viewer: Viewer) -> None:
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


def test_a_long_step_is_told_as_running_and_where(viewer: Viewer) -> None:
    released = threading.Event()

    def slow(rank: Rank) -> None:
        rank.stopping.stop(sys._getframe(), "breakpoint")
        released.wait(SECONDS)
        rank.warn("after the step")

    def script() -> None:
        viewer.opens()
        viewer.type(b"n")
        viewer.sees_current_line("released.wait(")
        viewer.type(b"n")
        viewer.wait_for(lambda: viewer.rank.stops.phase is StopPhase.STEPPING, "a step")
        # The time of the step before is over, which says nothing about this one.
        viewer.rank.stops.step_is_slow(viewer.rank.stops._steps - 1)
        assert viewer.rank.rank_report().state is RankState.STOPPED
        viewer.rank.stops.step_is_slow(viewer.rank.stops._steps)
        report = viewer.rank.rank_report()
        assert (report.state, report.stepping) == (RankState.RUNNING, True)
        assert viewer.rank.stopping.position.moving_place() is not None
        released.set()
        viewer.sees_current_line("rank.warn(")
        viewer.type(b"c")

    finish = drive(viewer, script)
    slow(viewer.rank)
    finish()


def test_the_users_own_theme_is_read_and_not_written(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config" / "pudb" / "pudb.cfg"
    config.parent.mkdir(parents=True)
    config.write_text("[pudb]\nline_numbers = True\nshell = ipython\n")
    before = config.read_bytes()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def script() -> None:
        viewer.opens()
        viewer.type(b"c")

    play(viewer, script)
    assert config.read_bytes() == before
    assert [path.name for path in config.parent.iterdir()] == ["pudb.cfg"]


@pytest.fixture
def heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "heavy_module.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "heavy_module", raising=False)
    return "heavy_module"


def test_what_the_program_has_not_imported_is_done_without(heavy: str) -> None:
    finders = list(sys.meta_path)
    with doing_without([heavy]), pytest.raises(ModuleNotFoundError):
        importlib.import_module(heavy)
    assert sys.meta_path == finders
    assert importlib.import_module(heavy).loaded
    with doing_without([heavy]):
        assert importlib.import_module(heavy).loaded


def test_other_threads_import_as_always_meanwhile(heavy: str) -> None:
    got: list[object] = []
    with doing_without([heavy]):
        thread = threading.Thread(target=lambda: got.append(importlib.import_module(heavy)))
        thread.start()
        thread.join(10)
    assert len(got) == 1


def test_the_programs_warnings_are_errors_before_and_after_but_not_the_debuggers() -> None:
    before = list(warnings.filters)
    with unwarned():
        warnings.warn_explicit("odd", DeprecationWarning, "x.py", 1, module="urwid.escape")
        with pytest.raises(DeprecationWarning):
            warnings.warn_explicit("odd", DeprecationWarning, "x.py", 1, module="train")
    assert list(warnings.filters) == before
