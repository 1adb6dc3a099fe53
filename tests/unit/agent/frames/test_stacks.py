"""Stacks as they are sent: without our own frames, and bounded."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from dbg_agent.frames import stacks as module
from dbg_agent.frames.stacks import (
    FrameAt,
    NoSuchFrame,
    all_frames,
    bounded_stack,
    bytes_of,
    find_frame,
    frames_of,
    frames_of_traceback,
    is_in,
    is_own,
    is_users_file,
    program_thread,
    skip_runner,
    stack_of,
    thread_frame,
    thread_stacks,
    traceback_of,
    users_frame,
)
from dbg_agent.process import threads
from dbg_wire.limits import MAX_STACK_BYTES, MAX_STACK_FRAMES
from dbg_wire.records.ranks import Place, ThreadStack
from tests.conftest import Approved


def deep(calls: int) -> FrameType:
    return sys._getframe() if calls == 0 else deep(calls - 1)


def raises() -> None:
    raise ValueError


def functions(places: Iterable[Place]) -> list[str]:
    return [place.function for place in places]


def test_a_stack_ends_at_its_frame_and_has_the_callers_before_it() -> None:
    stack = stack_of(deep(2))
    here = "test_a_stack_ends_at_its_frame_and_has_the_callers_before_it"
    assert functions(stack[-4:]) == [here, "deep", "deep", "deep"]
    assert stack[-1].file == __file__


def test_the_middle_of_a_large_stack_is_left_out_and_counted() -> None:
    deepest = stack_of(deep(600))
    assert (len(deepest), deepest[-1].function) == (MAX_STACK_FRAMES, "deep")
    places = tuple(Place(file=f"/{n}" + "\x01" * 4000, line=n, function="f") for n in range(100))
    stack = bounded_stack(places)
    assert bytes_of(stack) <= MAX_STACK_BYTES
    assert stack[-1] == places[-1]
    (note,) = [place for place in stack if not place.file]
    assert str(100 - (len(stack) - 1)) in note.function


@pytest.mark.parametrize("module", ["dbg_agent.rank.rank", "dbg_dial.dial", "dbg_wire.codec"])
def test_our_own_frames_are_left_out(module: str) -> None:
    namespace = {"__name__": module, "sys": sys}
    exec("def ours(call): return call()", namespace)  # noqa: S102 - a module that says it is ours
    frame = namespace["ours"](sys._getframe)  # type: ignore[operator]
    assert is_own(frame)
    assert frame.f_code.co_name == "ours"
    assert stack_of(frame)[-1].function == "test_our_own_frames_are_left_out"


def frame_in(module: str, call: Callable[[], FrameType]) -> FrameType:
    """Return the frame that ``call`` returns, called from a module of this name."""
    namespace = {"__name__": module, "call": call}
    exec("def caller(): return call()", namespace)  # noqa: S102 - a module of that name
    frame: FrameType = namespace["caller"]()  # type: ignore[operator]
    return frame


def test_the_runner_frames_are_those_before_the_programs_first_frame() -> None:
    runner, ours, program = (frame_in(name, sys._getframe) for name in ("runpy", "dbg_agent.program.script", "m"))
    assert skip_runner([runner, runner, ours, runner, program, runner]) == 4
    assert skip_runner([program, runner]) == 0
    assert skip_runner([runner, ours]) == 0, "a stack is never empty"


def test_a_traceback_ends_where_the_error_was_raised() -> None:
    try:
        raises()
    except ValueError as error:
        places = traceback_of(error.__traceback__)
    assert functions(places) == ["test_a_traceback_ends_where_the_error_was_raised", "raises"]


@pytest.mark.parametrize("may_lock_up", [True, False])
def test_a_running_thread_has_its_innermost_frame_and_an_ended_one_has_none(
    may_lock_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_MAY_LOCK_UP", may_lock_up)
    inside, leave = threading.Event(), threading.Event()

    def wait_inside() -> None:
        inside.set()
        leave.wait()

    thread = threading.Thread(target=wait_inside)
    thread.start()
    assert inside.wait(10)
    frames = all_frames()
    assert frames[threading.get_ident()].f_code is all_frames.__code__
    assert "wait_inside" in functions(stack_of(frames[thread.ident or 0]))
    assert "wait_inside" in functions(stack_of(thread_frame(thread.ident)))
    leave.set()
    thread.join()
    assert thread_frame(thread.ident) is None


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_collection_is_restored_even_after_a_failed_look(
    collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise MemoryError

    monkeypatch.setattr(module, "LOOK_MAY_LOCK_UP", True)
    if not collects:
        gc.disable()
    try:
        all_frames()
        assert gc.isenabled() is collects
        monkeypatch.setattr(sys, "_current_frames", fails)
        with pytest.raises(MemoryError):
            all_frames()
        assert gc.isenabled() is collects
    finally:
        gc.enable()


STDLIB = os.path.dirname(os.__file__)  # noqa: PTH120 - as the code under test


@pytest.mark.parametrize(
    ("path", "is_users"),
    [
        ("/home/me/train.py", True),
        ("/home/me/site-packages.py", True),
        ("train.py", True),
        ("/opt/editable/torch_plugin/src/plugin.py", True),
        ("/tmp/ipykernel_4711/123.py", True),
        (f"{STDLIB}-of-mine/train.py", True),
        (f"{STDLIB}/threading.py", False),
        ("/home/me/.venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", False),
        ("/usr/lib/python3/dist-packages/numpy/core/fromnumeric.py", False),
        ("<frozen runpy>", False),
        ("<string>", False),
        ("<eval_with_key>.0", False),
    ],
)
def test_a_file_is_the_users_unless_a_library_has_it(path: str, is_users: bool) -> None:
    assert is_users_file(path) is is_users


def called_in(path: str, depth: int = 1, name: str = "library") -> list[FrameAt]:
    """Return the frames of a call into code of this file, which calls itself."""
    namespace: dict[str, object] = {"__name__": "some_library", "getframe": sys._getframe}
    source = f"def {name}(depth):\n    return getframe() if depth == 1 else {name}(depth - 1)\n"
    exec(compile(source, path, "exec"), namespace)  # noqa: S102 - a library's code
    frame = namespace[name](depth)  # type: ignore[operator]
    return frames_of(frame)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/opt/venv/lib/site-packages/torch/distributed.py", "called_in"),
        ("/home/me/project/model.py", "library"),
        ("<string>", "called_in"),
        ("<frozen importlib._bootstrap>", "called_in"),
    ],
)
def test_the_innermost_frame_in_a_file_of_the_user_is_chosen(path: str, name: str) -> None:
    frames = called_in(path, 3)
    assert [at[0].f_code.co_name for at in frames[-3:]] == ["library"] * 3
    found = users_frame(frames)
    assert found is not None
    assert (found[0].f_code.co_name, found[1]) == (name, found[0].f_lineno)


def test_typed_code_or_the_innermost_frame_is_chosen_without_a_file_of_the_user() -> None:
    def only(*paths: str) -> list[FrameAt]:
        return [called_in(path)[-1] for path in paths]

    frames = only("<string>", f"{STDLIB}/threading.py", "<frozen importlib._bootstrap>")
    assert users_frame(frames) is frames[0]
    frames = only(f"{STDLIB}/threading.py", f"{STDLIB}/socket.py")
    assert users_frame(frames) is frames[1]
    assert users_frame([]) is None


class Model:
    def step(self) -> FrameType:
        return self.inner()

    def inner(self) -> FrameType:
        return sys._getframe()


def test_a_frame_is_found_by_its_function_and_by_its_number() -> None:
    frames = frames_of(Model().step())
    assert find_frame(frames, "step") is frames[-2]
    assert find_frame(frames, "-1") is frames[-1]
    assert find_frame(frames, "-2") is frames[-2]
    assert find_frame(frames, "0") is frames[0]
    assert find_frame(frames, str(len(frames) - 1)) is frames[-1]
    assert find_frame(frames, "Model.step") is frames[-2]
    with pytest.raises(NoSuchFrame):
        find_frame(frames, "Other.step")


@pytest.mark.parametrize("wanted", ["forwards", "2", "-3", "999999999"])
def test_a_missing_frame_is_reported_with_the_existing_frames(approved: Approved, wanted: str) -> None:
    with pytest.raises(NoSuchFrame) as raised:
        find_frame(called_in("/home/me/model.py", 3, "forward")[-2:], wanted)
    approved(str(raised.value))


def test_a_traceback_has_its_frames_at_the_lines_where_the_exception_left_them() -> None:
    line = 0

    def fails() -> None:
        nonlocal line
        try:
            line = sys._getframe().f_lineno + 1
            json.loads("{")
        finally:
            line = line * 1

    try:
        fails()
    except ValueError as error:
        frames = frames_of_traceback(error.__traceback__)
    found = users_frame(frames)
    assert found is not None
    assert (found[0].f_code.co_name, found[1]) == ("fails", line)
    assert Path(frames[-1][0].f_code.co_filename).parent.name == "json"


@contextmanager
def waiting(count: int = 1, name: str | None = None, *, own: bool = False) -> Iterator[threading.Event]:
    """Have threads wait in ``feed``, or in a function of our own, until the end."""
    ended, there = threading.Event(), threading.Semaphore(0)

    def feed() -> None:
        there.release()
        ended.wait()

    started = []
    for _ in range(count):
        if own:
            bounded_thread = threading.Thread(target=threads.within, args=(60.0, feed, None), daemon=True)
            started.append(bounded_thread)
        else:
            started.append(threading.Thread(target=feed, name=name, daemon=True))
        started[-1].start()
    for _ in range(count):
        assert there.acquire(timeout=10)
    try:
        yield ended
    finally:
        ended.set()
        for thread in started:
            thread.join()


def named(stacks: tuple[ThreadStack, ...], name: str) -> list[ThreadStack]:
    return [stack for stack in stacks if stack.name == name]


def test_all_threads_are_named_with_the_main_thread_first() -> None:
    with waiting(name="feeder"):
        stacks = thread_stacks(None, ())
    assert stacks[0].name == "MainThread"
    assert stacks[0].frames[-1].function == "test_all_threads_are_named_with_the_main_thread_first"
    (feeder,) = named(stacks, "feeder")
    assert "feed" in functions(feeder.frames)
    assert not any(stack.halted for stack in stacks)


def test_the_stopped_thread_has_the_stack_of_the_stop() -> None:
    place = Place(file="/t.py", line=7, function="work")
    stacks = thread_stacks(threading.main_thread().ident, (place,))
    assert (stacks[0].frames, stacks[0].halted) == ((place,), True)


def test_our_threads_are_left_out_whatever_their_names() -> None:
    before = {stack.name for stack in thread_stacks(None, ())}
    with waiting(own=True), waiting(name="dbg-agent-something"):
        # Threads of earlier tests may end meanwhile.
        assert {stack.name for stack in thread_stacks(None, ())} <= before


def test_threads_and_frames_are_bounded_to_fit_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_THREADS", 3)
    monkeypatch.setattr(module, "MAX_THREAD_FRAMES", 4)
    with waiting(5, name="feeder"):
        stacks = thread_stacks(None, ())
    assert len(stacks) == 3
    assert stacks[0].name == "MainThread"
    assert all(len(stack.frames) <= 4 for stack in stacks)


@pytest.mark.parametrize(
    ("main", "expected"), [("main_loop", "TrainingThread(loop)"), ("update", "MainThread")], ids=["idle", "busy"]
)
def test_the_training_thread_counts_when_the_main_thread_waits_for_actor_calls(main: str, expected: str) -> None:
    # A lock is C code, as Ray's loop is: both leave the function that calls them innermost.
    end, looked, found = threading.Event(), threading.Lock(), []
    worker: dict[str, Callable[[Callable[[], object]], None]] = {}
    exec(compile(f"def {main}(wait): wait()", "/site-packages/ray/_private/worker.py", "exec"), worker)  # noqa: S102

    def work() -> None:
        end.wait()

    def look() -> None:
        while not is_in(thread_frame(threading.main_thread().ident), "worker.py", main):
            pass
        found.append(program_thread())
        looked.release()

    threads = [threading.Thread(target=work, name=name) for name in ("Monitoring", "TrainingThread(loop)")]
    looked.acquire()
    for thread in (*threads, threading.Thread(target=look, name="dbg-agent-looks")):
        thread.start()
    worker[main](looked.acquire)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    end.set()
    assert names[found[0]] == expected
