"""The loops that a program is in, and what those try or ask that sleep between their tries."""

from __future__ import annotations

import glob
import os
import sys
from types import FrameType

import pytest

from dbg_agent.evidence.loops import loops_seen, retried, retries

FOLDER = "/none/run"
FEW = 3


class Looked(BaseException):
    """Ends a loop that has been looked at: nothing that a loop expects."""


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

    def post_metrics(self) -> None:
        while True:
            try:
                glob.glob(FOLDER)  # noqa: PTH207
                int("none")
                return
            except ValueError:
                self.pause()

    def until_it_works(self) -> None:
        for _ in range(5):
            try:
                return self.connect()
            except OSError:
                pass
            self.pause()
        return None

    def until_it_is_there(self) -> None:
        while not os.path.exists(FOLDER):  # noqa: PTH110
            self.pause()

    def connect(self) -> None:
        raise OSError

    def works(self) -> None:
        while True:
            self.connect_later()
            self.pause()

    def connect_later(self) -> None:
        return None

    def tries(self) -> None:
        while True:
            try:
                self.urlopen()
                return
            except OSError:
                self.sleep()

    def asks(self) -> None:
        while not self.is_there():
            self.sleep()

    def counts(self) -> None:
        while int(self.count("ready")) < FEW:
            self.pause()

    def asks_and_breaks(self) -> None:
        while True:
            if self.is_there():
                break
            self.sleep()
        self.found = ""

    def sleeps_in_one_step(self) -> None:
        for step in range(FEW):
            if self.count("ready") == "2" and step < FEW:
                self.pause()
            self.connect_later()

    def count(self, name: str) -> str:
        return f"{len(name) - 3}"

    def sleeps_elsewhere(self) -> None:
        for _ in range(3):
            try:
                self.urlopen()
            except OSError:
                return
        self.sleep()

    def trains(self) -> None:
        for _ in range(3):
            self.urlopen()
            self.sleep()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("post_metrics", "post_metrics (test_loops.py): glob, int"),
        ("until_it_works", "until_it_works (test_loops.py): connect"),
        ("until_it_is_there", "until_it_is_there (test_loops.py): exists"),
        ("works", ""),
        ("tries", "tries (test_loops.py): urlopen"),
        ("asks", "asks (test_loops.py): is_there"),
        ("counts", "counts (test_loops.py): count, int"),
        ("asks_and_breaks", "asks_and_breaks (test_loops.py): is_there"),
        ("sleeps_in_one_step", ""),
        ("sleeps_elsewhere", ""),
        ("trains", ""),
    ],
)
def test_a_loop_that_tries_again_is_told_with_its_tries(name: str, told: str) -> None:
    program = Trying()
    with pytest.raises(Looked):
        getattr(program, name)()
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
