"""A failure of PuDB ends no stop: the stop stays in PuDB or, at worst, in pdb, and the terminal is told why."""

from __future__ import annotations

import linecache
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_agent.engines.pudb_import import untraceable
from dbg_agent.stop.inbox import ProgramRaised
from dbg_agent.stop.stops import Crash
from tests.support.deep_calls import with_calls_left
from tests.unit.agent.pudb_stops import stop_with
from tests.unit.agent.pudb_viewer import Viewer, drive, let_go, play

ERRORS = [SystemExit, KeyboardInterrupt, RecursionError, MemoryError, ValueError, GeneratorExit]


def steps_on(viewer: Viewer) -> None:
    """See PuDB at the stop, and make a step."""
    viewer.waits_for_stop(1)
    viewer.look()
    viewer.sees_current_line("rank.stopping.stop(")
    viewer.type(b"n")
    viewer.sees_current_line("del shown")


def stops_at_line(viewer: Viewer, line: int) -> None:
    """Wait until the program is halted at this line."""

    def is_there() -> bool:
        frame = viewer.rank.stopping.frame
        return frame is not None and frame.f_lineno == line

    viewer.wait_for(is_there, f"line {line}")


def shows(viewer: Viewer, value: object, script: Callable[[], None] | None = None) -> None:
    """Have a program stop with this value among its variables, step on, and go on."""

    def whole() -> None:
        steps_on(viewer)
        if script is not None:
            script()
        viewer.type(b"c")

    finish = drive(viewer, whole)
    assert stop_with(viewer.rank, value) == "went on"
    finish()
    assert viewer.rank.stops.number == 1
    assert viewer.rank.program.warned == set()


def raising(error: type[BaseException], *names: str) -> object:
    """Return an object whose methods and properties of these names raise this error."""

    def fail(*_arguments: object) -> Any:
        raise error("on purpose")

    methods = {name: property(fail) if name in ("__class__", "shape") else fail for name in names}
    return type("Hostile", (), methods)()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("names", [("__len__",), ("safely_stringify_for_pudb",), ("__class__",), ("__getattribute__",)])
def test_a_value_that_fails_to_be_shown_costs_neither_the_stop_nor_the_others(
    viewer: Viewer, error: type[BaseException], names: tuple[str, ...]
) -> None:
    shows(viewer, raising(error, *names), lambda: viewer.sees("value: "))


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, RecursionError])
def test_a_repr_that_fails_and_members_that_fail(viewer: Viewer, error: type[BaseException]) -> None:
    def script() -> None:
        # The first of the variables is expanded, then shown by its repr, then by its str.
        viewer.type(b"V\rrs\r")
        viewer.sees("rank: ")
        viewer.type(b"C")

    shows(viewer, raising(error, "__repr__", "__str__", "__dir__", "shape"), script)


def test_every_character_of_a_wide_string_is_seen_when_it_is_wrapped(viewer: Viewer) -> None:
    text = "".join(chr(0x4E00 + number) for number in range(40))

    def script() -> None:
        # The value, wider than the pane, is the first of the variables.
        viewer.type(b"V")
        viewer.wait_for(lambda: all(c in "".join(viewer.display.display) for c in text), "the whole")
        viewer.type(b"C")

    shows(viewer, text, script)


@pytest.mark.parametrize("name", ["名前" * 12, "ｎａｍｅ" * 9, "e\u0301" * 30])
def test_names_that_are_wide_themselves(viewer: Viewer, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name[:20]}.py"
    path.write_text(
        f"def {name}({name}, self, rank, sys):\n"
        f"    rank.stopping.stop(sys._getframe(), 'breakpoint')\n    return {name}\n"
    )
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102 - a program of the test's own
    function = next(value for key, value in space.items() if key != "__builtins__")

    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees_current_line("rank.stopping.stop(")
        viewer.type(b"n")
        viewer.sees_current_line("return")
        viewer.type(b"c")

    finish = drive(viewer, script)
    assert function(5, raising(SystemExit, "__class__"), viewer.rank, sys) == 5
    finish()
    assert viewer.rank.program.warned == set()


def test_a_stringifier_of_the_users_own_that_ends_the_process(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stringifier = tmp_path / "stringifier.py"
    stringifier.write_text("import sys\ndef pudb_stringifier(value):\n    sys.exit('stringifier')\n")

    def script() -> None:
        # Not at the top of the file: the rank itself must import PuDB first.
        from pudb import debugger, var_view

        monkeypatch.setitem(debugger.CONFIG, "stringifier", str(stringifier))
        monkeypatch.setattr(var_view, "custom_stringifier_dict", {})
        viewer.type(b"n")
        viewer.sees("can't be shown")

    shows(viewer, 5, script)


def edited(path: Path) -> None:
    path.write_text("def f(:\n    '''\n")


def not_text(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 9)


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def failing_loader(path: Path) -> None:
    path.unlink()
    linecache.checkcache(str(path))


@pytest.mark.parametrize("change", [edited, not_text, gone, a_folder, failing_loader])
def test_a_source_that_was_changed_meanwhile(viewer: Viewer, tmp_path: Path, change: Callable[[Path], None]) -> None:
    class Loader:
        def get_source(self, _name: str) -> str:
            raise ValueError("no source")

    path = tmp_path / "program.py"
    path.write_text(
        "def f(rank, sys):\n    rank.stopping.stop(sys._getframe(), 'breakpoint')\n    a = 1\n    return a\n"
    )
    space: dict[str, Any] = {"__name__": "program", "__loader__": Loader() if change is failing_loader else None}
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102 - a program of the test's own
    change(path)

    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees("Variables:")
        viewer.type(b"n")
        stops_at_line(viewer, 3)
        # A breakpoint, a run to the cursor and a search, on a line that the file may have lost.
        viewer.type(b"b\rt\r/x\r")
        viewer.sees("Variables:")
        let_go(viewer)

    finish = drive(viewer, script)
    assert space["f"](viewer.rank, sys) == 1
    finish()
    assert viewer.rank.stops.number == 1
    assert viewer.rank.program.warned == set()


@pytest.mark.parametrize("name", [5, None, b"bytes"])
def test_a_module_whose_name_is_no_text(viewer: Viewer, name: object) -> None:
    space: dict[str, Any] = {"__name__": name}
    exec("def f(rank, sys):\n    rank.stopping.stop(sys._getframe(), 'breakpoint')\n    a = 1\n    return a\n", space)  # noqa: S102 - as above

    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees("Variables:")
        viewer.type(b"n")
        stops_at_line(viewer, 3)
        let_go(viewer)

    assert play(viewer, script, lambda rank: space["f"](rank, sys)) == 1
    assert viewer.rank.program.warned == set()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("in __str__")

    __repr__ = __str__


def test_a_crash_whose_exception_cannot_be_printed(viewer: Viewer) -> None:
    crash = None
    try:
        raise Unspeakable
    except Unspeakable as error:
        crash = error

    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees("Variables:")
        viewer.type(b"\r")
        viewer.sees_current_line("raise Unspeakable")
        viewer.type(b"e\r")
        let_go(viewer)

    finish = drive(viewer, script)
    viewer.rank.stopping.stop(sys._getframe(), "crash", crash=Crash(crash))
    finish()


@pytest.mark.parametrize("error", [SystemExit, RecursionError, ValueError])
def test_a_key_that_fails_is_told(viewer: Viewer, error: type[BaseException]) -> None:
    def fail(*_arguments: object) -> None:
        raise error("at a key")

    def script() -> None:
        ui = viewer.rank.debuggers.last.ui  # type: ignore[union-attr] # PuDB's
        ui.top.event_listeners.insert(0, ("f5", fail))
        viewer.type(b"\x1b[15~")
        viewer.sees(f"key f5 ({error.__name__}: at a key)")
        assert any("key f5" in answer for answer in viewer.answers)

    shows(viewer, 5, script)


def failing_draw(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have PuDB's window be drawn once more, and then fail to be drawn this many times."""
    import urwid

    usual, left = urwid.Frame.render, [times + 1]

    def render(self: Any, size: Any, focus: bool = False) -> Any:
        left[0] -= 1
        if 0 <= left[0] < times:
            urwid.CanvasCache.clear()
            raise ValueError("can't draw")
        return usual(self, size, focus)

    monkeypatch.setattr(urwid.Frame, "render", render)


def test_pudb_is_opened_afresh_when_it_cannot_be_drawn(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    says = "was opened afresh (ValueError: can't draw)"

    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees_current_line("rank.stopping.stop(")
        failing_draw(monkeypatch, 1)
        viewer.type(b"jj")
        viewer.wait_for(lambda: any(says in answer for answer in viewer.answers), says)
        viewer.type(b"n")
        viewer.sees_current_line("del shown")
        viewer.type(b"c")

    finish = drive(viewer, script)
    assert stop_with(viewer.rank, 5) == "went on"
    finish()
    assert viewer.rank.program.warned == set()


def test_pdb_opens_where_pudb_can_not_and_pudb_is_tried_again_at_the_next_stop(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees_current_line("rank.stopping.stop(")
        with monkeypatch.context() as patch:
            failing_draw(patch, 1000)
            viewer.type(b"jj")
            viewer.sees("(ValueError: can't draw)")
            viewer.wait_for(lambda: viewer.rank.debuggers.console.prompt is not None, "a prompt")
            assert viewer.rank.stops.number == 1
        let_go(viewer)

    finish = drive(viewer, script)
    assert stop_with(viewer.rank, 5) == "went on"
    finish()

    def again() -> None:
        viewer.waits_for_stop(2)
        # The line is still on the screen, from the stop before.
        viewer.wait_for(lambda: viewer.rank.stops.engine == "pudb", "PuDB")
        viewer.sees_current_line("rank.stopping.stop(")
        viewer.type(b"c")

    finish = drive(viewer, again)
    assert stop_with(viewer.rank, 5) == "went on"
    finish()


def test_a_handler_of_the_programs_own_still_ends_it_while_pudb_draws(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import urwid

    usual = urwid.Frame.render

    def ends(_number: int, _frame: object) -> None:
        sys.exit("terminated")

    def render(self: Any, size: Any, focus: bool = False) -> Any:
        monkeypatch.setattr(urwid.Frame, "render", usual)
        signal.raise_signal(signal.SIGTERM)
        return usual(self, size, focus)

    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.sees_current_line("rank.stopping.stop(")
        monkeypatch.setattr(urwid.Frame, "render", render)
        viewer.type(b"j")

    before = signal.signal(signal.SIGTERM, ends)
    finish = drive(viewer, script)
    try:
        with pytest.raises((SystemExit, ProgramRaised)):
            stop_with(viewer.rank, 5)
    finally:
        signal.signal(signal.SIGTERM, before)
    finish()
    assert sys.gettrace() is None


def test_a_stop_close_to_the_recursion_limit(viewer: Viewer) -> None:
    def script() -> None:
        steps_on(viewer)
        viewer.type(b"c")

    limit = sys.getrecursionlimit()
    finish = drive(viewer, script)
    assert with_calls_left(30, lambda: stop_with(viewer.rank, 5)) == "went on"
    finish()
    assert sys.getrecursionlimit() == limit
    assert viewer.rank.program.warned == set()


@given(text=st.text(max_size=200), columns=st.integers(5, 120), wrap=st.booleans(), label=st.text(max_size=30))
@settings(max_examples=200, deadline=None)
def test_every_text_is_drawn_within_its_columns(text: str, columns: int, wrap: bool, label: str) -> None:
    with untraceable():
        from dbg_agent.engines.pudb_ui import sentence_row

    row = sentence_row(text, label)
    row.wrap = wrap
    for focus in (False, True):
        canvas = row.render((columns,), focus)
        assert (canvas.cols(), canvas.rows()) == (columns, row.rows((columns,), focus))
