"""The loops that a program is in: what those try or ask that sleep between their tries, and the file that they want."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dbg_agent.evidence.loops import loops_seen, retried, retries
from dbg_agent.evidence.polled_files import polled_file

FOLDER = "/none/run"
FEW = 3

Loop = Callable[[Any], None]


class Looked(BaseException):
    """Ends a loop that has been looked at: nothing that a loop expects."""


POLLING: list[Any] = []
TRYING: list[Any] = []


def polls(file: str | None) -> Callable[[Loop], Loop]:
    """Have a loop tested for the file that it looks for; "" is one that can't be named, None is no file."""

    def register(loop: Loop) -> Loop:
        POLLING.append(pytest.param(loop, file, id=loop.__name__))
        return loop

    return register


def asks_again(*calls: str) -> Callable[[Loop], Loop]:
    """Have a loop tested for the calls that it tries again."""

    def register(loop: Loop) -> Loop:
        told = f"{loop.__name__} (test_loops.py): {', '.join(calls)}" if calls else ""
        TRYING.append(pytest.param(loop, told, id=loop.__name__))
        return loop

    return register


class Waiting:
    """A program whose loops call :meth:`pause` between two looks at a file."""

    def __init__(self) -> None:
        self.folder = FOLDER
        self.found: str | None = None

    def pause(self) -> None:
        """Stand for a sleep: keep what is told of the loop around it, and leave the loop."""
        frame = sys._getframe(1)
        frames = [one for one in (frame, frame.f_back, frame.f_back and frame.f_back.f_back) if one is not None]
        self.found = polled_file(frames, reads=True)
        raise Looked

    def pause_below(self) -> None:
        self.pause()

    @polls(FOLDER)
    def exists(self) -> None:
        while not os.path.exists(self.folder):  # noqa: PTH110 - what programs do, here and below
            self.pause()

    @polls(f"{FOLDER}/step/done")
    def joined(self) -> None:
        while not os.path.isfile(os.path.join(self.folder, "step", "done")):  # noqa: PTH113, PTH118
            self.pause()

    @polls(f"{FOLDER}/step_7.pt")
    def formatted(self) -> None:
        number = 7
        while True:
            if os.path.exists(f"{self.folder}/step_{number}.pt"):  # noqa: PTH110
                break
            self.pause()

    @polls("")
    def rounded(self) -> None:
        number = 7
        while not os.path.exists(f"{self.folder}/step_{number:04}.pt"):  # noqa: PTH110
            self.pause()

    @polls("")
    def made_by_others(self) -> None:
        while not os.path.exists(sorted([self.folder])[0]):  # noqa: PTH110
            self.pause()

    @polls(f"{FOLDER}/step/done")
    def divided(self) -> None:
        folder = Path(self.folder)
        while not (folder / "step" / "done").is_file():
            self.pause()

    @polls(f"{FOLDER}/loaded")
    def of_path(self) -> None:
        while not Path(self.folder, "loaded").exists():
            self.pause()

    @polls(f"{FOLDER}/below")
    def helpers(self) -> None:
        while not is_there(self.folder + "/below"):
            self.pause_below()

    @polls("name")
    def method(self) -> None:
        while not self.is_there("name"):
            self.pause()

    def is_there(self, name: str) -> bool:
        return Path(self.folder, name).exists()

    @polls(f"{FOLDER}/opened")
    def opens(self) -> None:
        while True:
            try:
                with open(f"{self.folder}/opened", encoding="utf-8"):  # noqa: PTH123
                    break
            except FileNotFoundError:
                self.pause()

    @polls(f"{FOLDER}/read")
    def reads(self) -> None:
        path = Path(self.folder) / "read"
        while True:
            try:
                path.read_text(encoding="utf-8")
            except OSError:
                pass
            else:
                return
            self.pause()

    @polls(f"{FOLDER}/status")
    def asks_for_status(self) -> None:
        while True:
            try:
                os.stat(os.path.join(self.folder, "status"))  # noqa: PTH116, PTH118
                return
            except OSError:
                pass
            self.pause()

    @polls(f"{FOLDER}/*.done")
    def globs(self) -> None:
        while not glob.glob(self.folder + "/*.done"):  # noqa: PTH207
            self.pause()

    @polls(f"{FOLDER}/*.pt")
    def globs_path(self) -> None:
        folder = Path(self.folder)
        while not list(folder.glob("*.pt")):
            self.pause()

    @polls(None)
    def writes(self) -> None:
        while True:
            try:
                with open(f"{self.folder}/log", "a"):  # noqa: PTH123
                    pass
            except OSError:
                self.pause()

    @polls(None)
    def opens_without_try(self) -> None:
        while True:
            with open("/dev/null"):  # noqa: PTH123
                pass
            self.pause()

    @polls(None)
    def no_file(self) -> None:
        if os.path.exists(self.folder):  # noqa: PTH110
            return
        while True:
            self.pause()

    @polls(None)
    def no_loop(self) -> None:
        if not os.path.exists(self.folder):  # noqa: PTH110
            self.pause()


def is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110


class Trying:
    """A program whose loops try something again after a pause; each looks at itself in one of the two."""

    def __init__(self) -> None:
        self.found = ""
        self.times = 0

    def pause(self) -> None:
        self.found = retried([sys._getframe(1)])
        raise Looked

    def urlopen(self) -> bool:
        self.found = retries([sys._getframe(1)])
        raise Looked

    def is_there(self) -> bool:
        # A loop asks for the first time before it begins.
        self.times += 1
        return self.times > 1 and self.urlopen_within()

    def urlopen_within(self) -> bool:
        self.found = retries([sys._getframe(2)])
        raise Looked

    def sleep(self) -> None:
        """Stand for the pause of a loop that is looked at while it tries."""

    @asks_again("glob", "int")
    def post_metrics(self) -> None:
        while True:
            try:
                glob.glob(FOLDER)  # noqa: PTH207
                int("none")
                return
            except ValueError:
                self.pause()

    @asks_again("connect")
    def until_it_works(self) -> None:
        for _ in range(5):
            try:
                self.connect()
                break
            except OSError:
                pass
            self.pause()

    @asks_again("exists")
    def until_it_is_there(self) -> None:
        while not os.path.exists(FOLDER):  # noqa: PTH110
            self.pause()

    def connect(self) -> None:
        raise OSError

    @asks_again()
    def works(self) -> None:
        while True:
            self.connect_later()
            self.pause()

    def connect_later(self) -> None:
        return None

    @asks_again("urlopen")
    def tries(self) -> None:
        while True:
            try:
                self.urlopen()
                return
            except OSError:
                self.sleep()

    @asks_again("is_there")
    def asks(self) -> None:
        while not self.is_there():
            self.sleep()

    @asks_again("count", "int")
    def counts(self) -> None:
        while int(self.count("ready")) < FEW:
            self.pause()

    @asks_again("is_there")
    def asks_and_breaks(self) -> None:
        while True:
            if self.is_there():
                break
            self.sleep()
        self.found = ""

    @asks_again()
    def sleeps_in_one_step(self) -> None:
        for step in range(FEW):
            if self.count("ready") == "2" and step < FEW:
                self.pause()
            self.connect_later()

    def count(self, name: str) -> str:
        return f"{len(name) - 3}"

    @asks_again()
    def sleeps_elsewhere(self) -> None:
        for _ in range(3):
            try:
                self.urlopen()
            except OSError:
                return
        self.sleep()

    @asks_again()
    def trains(self) -> None:
        for _ in range(3):
            self.urlopen()
            self.sleep()


@pytest.mark.parametrize(("loop", "file"), POLLING)
def test_the_file_that_a_loop_looks_for_is_named(loop: Loop, file: str | None) -> None:
    program = Waiting()
    with pytest.raises(Looked):
        loop(program)
    assert program.found == file


@pytest.mark.parametrize(("loop", "told"), TRYING)
def test_a_loop_that_tries_again_is_told_with_its_tries(loop: Loop, told: str) -> None:
    program = Trying()
    with pytest.raises(Looked):
        loop(program)
    assert program.found == told


def here() -> FrameType:
    """Return the frame of the caller."""
    return sys._getframe(1)


def line_of(text: str) -> int:
    """Return the line of this file that ends with a text."""
    with open(__file__) as source:  # noqa: PTH123
        return next(number for number, line in enumerate(source, 1) if line.rstrip().endswith(text))


def lines(frame: FrameType) -> list[tuple[int, int]]:
    """Return first and last line of the loops around a frame, the innermost first."""
    return [(one.first, one.last) for one in loops_seen([frame], 1)]


def epochs() -> list[list[tuple[int, int]]]:
    found = [lines(here())]
    for _epoch in range(1):  # epochs begin
        for _batch in range(1):  # batches begin
            try:
                found.append(lines(here()))
            except ValueError:
                continue  # batches end
        found.append(lines(here()))  # epochs end
    step = 0
    while step < 1:  # steps begin
        found.append(lines(here()))
        step += 1  # steps end
    return [*found, lines(here())]


def test_the_loops_around_a_frame_are_told_by_their_lines() -> None:
    outer = (line_of("# epochs begin"), line_of("# epochs end"))
    steps = (line_of("# steps begin"), line_of("# steps end"))
    before, in_batch, in_epoch, in_step, after = epochs()

    assert (before, after) == ([], [])
    assert [first for first, _ in in_batch] == [line_of("# batches begin"), outer[0]]
    assert in_batch[0][1] < line_of("# epochs end")
    assert in_epoch == [outer]
    assert in_step == [steps]


def test_a_frame_is_told_by_its_place_among_those_that_are_told() -> None:
    for _ in range(1):
        frame = here()
        assert [one.frame for one in loops_seen([frame, here()], 2)] == [1, 0]
        assert [one.frame for one in loops_seen([frame, here()], 1)] == [0]
