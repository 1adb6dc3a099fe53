"""A failure of PuDB ends no stop: the stop stays in PuDB or, at worst, in pdb, and the terminal shows why."""

from __future__ import annotations

import linecache
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbg_agent.debuggers.pudb_import import untraceable
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.inbox import ProgramRaised
from tests.unit.agent.pudb_stops import stop_with
from tests.unit.agent.pudb_viewer import Viewer, drive, end_stop, play


def raising(error: type[BaseException], *names: str) -> object:
    """Return an object whose methods and properties of these names raise this error."""

    def fail(*_arguments: object) -> Any:
        raise error("on purpose")

    methods = {name: property(fail) if name in ("__class__", "shape") else fail for name in names}
    return type("Hostile", (), methods)()


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (SystemExit, "__len__"),
        (KeyboardInterrupt, "safely_stringify_for_pudb"),
        (RecursionError, "__class__"),
        (MemoryError, "__getattribute__"),
        (GeneratorExit, "safely_stringify_for_pudb"),
        (ValueError, "__getattribute__"),
    ],
)
def test_a_value_that_cannot_be_shown_never_ends_the_stop(
    viewer: Viewer, error: type[BaseException], name: str
) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look()
        viewer.wait_for(
            lambda: viewer.rank.debuggers.console.prompt is not None or "rank: " in str(viewer.display.display),
            "PuDB, or pdb in its place",
        )
        end_stop(viewer)

    finish = drive(viewer, script)
    assert stop_with(viewer.rank, value=raising(error, name)) == "went on"
    finish()
    assert viewer.rank.stops.number == 1


def program_of(tmp_path: Path, space: dict[str, Any], name: str = "f", arguments: str = "rank, sys") -> Path:
    """Define a function that stops, in a file of its own; return the file."""
    path = tmp_path / "program.py"
    path.write_text(
        f"def {name}({arguments}):\n    rank.stopping.stop(sys._getframe(), 'breakpoint')\n    a = 1\n    return a\n"
    )
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102 - a program of the test's own
    return path


def steps_to_line(viewer: Viewer, line: int) -> None:
    """Open PuDB, make a step, and wait until the program is halted at this line."""

    def is_there() -> bool:
        frame = viewer.rank.halt.frame
        return frame is not None and frame.f_lineno == line

    viewer.waits_for_stop(1)
    viewer.look()
    viewer.does((b"", "Variables:"), (b"n", ""))
    viewer.wait_for(is_there, f"line {line}")


def edited(path: Path) -> None:
    path.write_text("def f(:\n    '''\n")


def not_text(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 9)


def failing_loader(path: Path) -> None:
    path.unlink()
    linecache.checkcache(str(path))


class Loader:
    def get_source(self, _name: str) -> str:
        raise ValueError("no source")


@pytest.mark.parametrize("change", [edited, not_text, failing_loader])
def test_a_changed_source_file_ends_no_stop(viewer: Viewer, tmp_path: Path, change: Callable[[Path], None]) -> None:
    space: dict[str, Any] = {"__name__": "program", "__loader__": Loader() if change is failing_loader else None}
    change(program_of(tmp_path, space))

    def script() -> None:
        steps_to_line(viewer, 3)
        # A breakpoint, a run to the cursor and a search, on a line that the file may have lost.
        viewer.does((b"b\rt\r/x\r", "Variables:"))
        end_stop(viewer)

    assert play(viewer, script, lambda rank: space["f"](rank, sys)) == 1
    assert viewer.rank.stops.number == 1


# ------------------------------------------------------------------------------------------- where PuDB itself fails


CANT_DRAW = "(ValueError: can't draw)"


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


def test_pdb_opens_when_pudb_fails_and_pudb_is_tried_at_the_next_stop(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script() -> None:
        viewer.opens()
        with monkeypatch.context() as patch:
            failing_draw(patch, 1000)
            viewer.does((b"jj", CANT_DRAW))
            viewer.wait_for(lambda: viewer.rank.debuggers.console.prompt is not None, "a prompt")
            assert viewer.rank.stops.number == 1
        end_stop(viewer)
        viewer.waits_for_stop(2)
        # The line is still on the screen, from the stop before.
        viewer.wait_for(lambda: viewer.rank.stops.engine == "pudb", "PuDB")
        viewer.does((b"", "> rank.stopping.stop("), (b"c", ""))

    def twice(rank: Rank) -> list[str]:
        return [stop_with(rank, number) for number in range(2)]

    finish = drive(viewer, script)
    assert twice(viewer.rank) == ["went on"] * 2
    finish()


def test_a_signal_handler_of_the_program_still_ends_it_while_pudb_draws(
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
        viewer.opens()
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


def test_a_pudb_that_cannot_be_created_keeps_the_programs_own_settings() -> None:
    with untraceable():
        # Loaded, as in a program that uses PuDB by itself.
        from pudb import settings as own
    before = own.XDG_CONFIG_HOME, own.XDG_CONFIG_DIRS
    with pytest.raises(RuntimeError), untraceable():
        raise RuntimeError
    assert before == (own.XDG_CONFIG_HOME, own.XDG_CONFIG_DIRS)
