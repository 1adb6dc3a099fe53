"""Stacks as they are told: without our own frames, and bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from dbg_agent.stop.stacks import bounded_stack, bytes_of, is_own, skip_runner, stack_of, thread_frame, traceback_of
from dbg_wire.limits import MAX_STACK_BYTES, MAX_STACK_FRAMES
from dbg_wire.records.ranks import Place
from tests.support.time_unit import seconds


def deep(calls: int) -> FrameType:
    return sys._getframe() if calls == 0 else deep(calls - 1)


def raises() -> None:
    raise ValueError


def test_a_stack_ends_at_its_frame_and_has_the_callers_before_it() -> None:
    stack = stack_of(deep(2))
    assert [place.function for place in stack[-4:]] == [
        "test_a_stack_ends_at_its_frame_and_has_the_callers_before_it",
        "deep",
        "deep",
        "deep",
    ]
    assert stack[-1].file == __file__


def test_the_middle_of_a_very_deep_stack_is_left_out_and_counted() -> None:
    stack = stack_of(deep(600))
    assert len(stack) == MAX_STACK_FRAMES
    assert stack[-1].function == "deep"
    (note,) = [place for place in stack if not place.file]
    assert "frames left out" in note.function


@pytest.mark.parametrize("module", ["dbg_agent.rank.rank", "dbg_dial.dial", "dbg_wire.codec"])
def test_our_own_frames_are_not_told(module: str) -> None:
    namespace = {"__name__": module, "sys": sys}
    exec("def ours(call): return call()", namespace)  # noqa: S102 - a module that says it is ours
    frame = namespace["ours"](sys._getframe)  # type: ignore[operator]
    assert is_own(frame)
    assert frame.f_code.co_name == "ours"
    assert stack_of(frame)[-1].function == "test_our_own_frames_are_not_told"


def frame_in(module: str, call: Callable[[], FrameType]) -> FrameType:
    """Return the frame that ``call`` returns, called from a module of this name."""
    namespace = {"__name__": module, "call": call}
    exec("def caller(): return call()", namespace)  # noqa: S102 - a module of that name
    frame: FrameType = namespace["caller"]()  # type: ignore[operator]
    return frame


def test_the_frames_that_run_the_program_are_those_before_its_first_one() -> None:
    runner, ours, program = (frame_in(name, sys._getframe) for name in ("runpy", "dbg_agent.program.script", "m"))
    assert skip_runner([runner, runner, ours, runner, program, runner]) == 4
    assert skip_runner([program, runner]) == 0
    assert skip_runner([runner, ours]) == 0, "a stack is never empty"


PROBE = """\
import sys
from dbg_agent.stop.stacks import stack_of
from tests.agent.pdb_driver import Driver, play
from tests.agent.pudb_viewer import Viewer
from tests.agent.pudb_viewer import play as play_in_pudb

print("where", stack_of(sys._getframe())[0].file)

driver = Driver()

def type_in_pdb():
    print("pdb", driver.output_of("w").splitlines()[0])
    driver.say("c")

play(driver, type_in_pdb)
viewer = Viewer()

def type_in_pudb():
    viewer.opens()
    print("pudb", viewer.rank.debuggers.last.stack[0][0].f_code.co_filename)
    viewer.type(b"c")

play_in_pudb(viewer, type_in_pudb)
"""


def test_a_module_that_is_run_has_no_runner_below_it_in_where_pdb_and_pudb(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{root}", "HOME": str(tmp_path)}
    run = [sys.executable, "-m", "probe"]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True, timeout=seconds(60))
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert {name: Path(where.partition("(")[0]).name for name, where in lines.items()} == dict.fromkeys(
        ("where", "pdb", "pudb"), "probe.py"
    )


def test_a_traceback_is_told_to_where_it_was_raised() -> None:
    try:
        raises()
    except ValueError as error:
        places = traceback_of(error.__traceback__)
    assert [place.function for place in places] == [
        "test_a_traceback_is_told_to_where_it_was_raised",
        "raises",
    ]


def test_another_thread_is_found_and_one_that_ended_is_not() -> None:
    inside, leave = threading.Event(), threading.Event()

    def wait_inside() -> None:
        inside.set()
        leave.wait()

    thread = threading.Thread(target=wait_inside)
    thread.start()
    assert inside.wait(10)
    assert "wait_inside" in [place.function for place in stack_of(thread_frame(thread.ident))]
    leave.set()
    thread.join()
    assert thread_frame(thread.ident) is None


def test_a_stack_with_long_paths_is_cut_in_the_middle_until_it_fits() -> None:
    long = "\x01" * 4000
    places = tuple(Place(file=f"/{n}{long}", line=n, function="f") for n in range(100))
    stack = bounded_stack(places)
    assert bytes_of(stack) <= MAX_STACK_BYTES
    assert stack[-1] == places[-1]
    (note,) = [place for place in stack if not place.file]
    assert note.function == f"[{100 - (len(stack) - 1)} frames left out]"
