"""The loops that a program is in: what those try or ask that sleep between their tries, and the file that they want."""

from __future__ import annotations

import glob
import linecache
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dbg_agent.evidence.loops import SLEEP, polled_file, retried
from dbg_wire.records.evidence import ActivityInfo

CASES = Path(__file__).with_name("loops.txt")
FILE = "cases.py"
FOLDER = "/none/run"


class Looked(BaseException):
    """Ends a loop that has been looked at: nothing that a loop expects."""


class Job:
    """What the loops of the case file call; each loop is looked at in a pause, or in a call that it tries."""

    folder = FOLDER

    def __init__(self) -> None:
        self.file: str | None = None
        self.tries: ActivityInfo | None = None

    def pause(self) -> None:
        """Stand for a sleep: keep what is reported of the loop around it, and leave the loop."""
        self._look(sys._getframe(1))

    def pause_below(self) -> None:
        """Stand for a function of the program that sleeps."""
        self._look(sys._getframe())

    def _look(self, frame: FrameType) -> None:
        frames = [one for one in (frame, frame.f_back, frame.f_back and frame.f_back.f_back) if one is not None]
        self.file = polled_file(frames, reads=True)
        self.tries = retried([frame])
        raise Looked

    def is_there(self, name: str) -> bool:
        return Path(self.folder, name).exists()

    def count(self, name: str) -> str:
        return f"{len(name) - 3}"

    def connect(self) -> None:
        raise OSError

    def works(self) -> None:
        """Return at once."""

    sleep = works


def is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - what programs do


def cases(kind: str) -> Iterator[Any]:
    """Yield names, sources and answers of the case file."""
    for section in CASES.read_text().split("\n== ")[1:]:
        head, _, source = section.partition("\n")
        name, what, expected = head.split(" | ")
        if what == kind:
            yield pytest.param(name, source, expected, id=name)


def looked_at(name: str, source: str) -> Job:
    """Run a loop in a function of its name until it is looked at."""
    job = Job()
    text = f"def {name}():\n{textwrap.indent(source, '    ')}\n"
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    space: dict[str, Any] = {"job": job, "pause": job.pause, "pause_below": job.pause_below}
    space |= {"glob": glob, "os": os, "Path": Path, "is_there": is_there}
    exec(compile(text, FILE, "exec"), space)  # noqa: S102 - a program of the case file
    with pytest.raises(Looked):
        space[name]()
    return job


@pytest.mark.parametrize(("name", "source", "expected"), list(cases("file")))
def test_the_file_that_a_loop_looks_for_is_named(name: str, source: str, expected: str) -> None:
    assert looked_at(name, source).file == {"none": None, "a file without a name": ""}.get(expected, expected)


@pytest.mark.parametrize(("name", "source", "expected"), list(cases("tries")))
def test_a_loop_that_retries_is_reported_with_its_tries(name: str, source: str, expected: str) -> None:
    tries = looked_at(name, source).tries
    names = None if expected == "nothing" else (*expected.split(", "), SLEEP)
    assert (tries and tries.names, tries and tries.function) == (names, names and name)
