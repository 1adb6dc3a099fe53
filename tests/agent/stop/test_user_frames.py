"""The frame that a question is about: the user's own innermost one, or the one that is asked for."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

from dbg_agent.stop.user_frames import (
    FrameAt,
    NoSuchFrame,
    find_frame,
    frames_of,
    frames_of_traceback,
    is_users_file,
    users_frame,
)

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


def test_the_innermost_frame_of_the_users_own_code_is_taken() -> None:
    frames = called_in("/opt/venv/lib/site-packages/torch/distributed.py", 3)
    assert [at[0].f_code.co_name for at in frames[-3:]] == ["library"] * 3
    found = users_frame(frames)
    assert found is not None
    assert found[0].f_code.co_name == "called_in"
    assert found[1] == found[0].f_lineno


def test_a_frame_that_is_the_users_own_is_taken_itself() -> None:
    found = users_frame(called_in("/home/me/project/model.py"))
    assert found is not None
    assert found[0].f_code.co_name == "library"


@pytest.mark.parametrize("path", ["<string>", "<frozen importlib._bootstrap>"])
def test_code_without_a_file_is_passed_over_where_the_user_has_a_file(path: str) -> None:
    found = users_frame(called_in(path))
    assert found is not None
    assert found[0].f_code.co_name == "called_in"


def only(*paths: str) -> list[FrameAt]:
    """Return one frame of a function in each of these files, outermost first."""
    return [called_in(path)[-1] for path in paths]


def test_of_a_program_without_a_file_what_was_typed_is_taken() -> None:
    frames = only("<string>", f"{STDLIB}/threading.py", "<frozen importlib._bootstrap>")
    assert users_frame(frames) is frames[0]


def test_of_libraries_alone_the_innermost_frame_is_taken() -> None:
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


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no qualified name before")
def test_a_frame_is_found_by_the_name_of_its_class_and_function() -> None:
    frames = frames_of(Model().step())
    assert find_frame(frames, "Model.step") is frames[-2]
    with pytest.raises(NoSuchFrame):
        find_frame(frames, "Other.step")


def test_of_a_function_that_calls_itself_the_innermost_frame_is_found() -> None:
    frames = called_in("/home/me/project/model.py", 3)
    assert find_frame(frames, "library") is frames[-1]


def test_a_missing_function_is_told_with_the_innermost_ones_that_there_are() -> None:
    frames = called_in("/home/me/model.py", 1, "forward")
    with pytest.raises(NoSuchFrame) as raised:
        find_frame(frames, "forwards")
    text = str(raised.value)
    assert text.startswith("there is no frame of forwards; the stack has, innermost first, forward, called_in, ")
    assert text.endswith(" more")


@pytest.mark.parametrize("wanted", ["2", "-3", "999999999"])
def test_a_number_beyond_the_stack_is_told_with_the_count(wanted: str) -> None:
    with pytest.raises(NoSuchFrame) as raised:
        find_frame(called_in("/home/me/model.py", 3)[-2:], wanted)
    assert str(raised.value) == f"there is no frame {wanted}; the stack has 2 frames, innermost first library"


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


def test_a_thread_of_the_standard_library_is_asked_in_the_users_function() -> None:
    found: list[FrameAt | None] = []

    def predicate() -> bool:
        found.append(users_frame(frames_of(sys._getframe(1))))
        return True

    def waits() -> None:
        threading.Condition().wait_for(predicate)

    thread = threading.Thread(target=waits)
    thread.start()
    thread.join()
    assert found[0] is not None
    assert found[0][0].f_code.co_name == "waits"
