"""Which file a loop looks for, in each way in which programs do so."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from dbg_agent.evidence.polled_files import polled_file

FOLDER = "/none/run"


class Looked(BaseException):
    """Ends a loop that has been looked at: nothing that a loop expects."""


class Waiting:
    """A program whose loops call :meth:`pause` between two looks at a file."""

    def __init__(self) -> None:
        self.folder = FOLDER
        self.found: str | None = None

    def pause(self) -> None:
        """Stand for a sleep: keep what is told of the loop around it, and leave the loop."""
        frames: list[FrameType] = []
        frame = sys._getframe(1)
        for _ in range(3):
            frames.append(frame)
            if frame.f_back is None:
                break
            frame = frame.f_back
        self.found = polled_file(frames, reads=True)
        raise Looked

    def pause_below(self) -> None:
        self.pause()

    def exists(self) -> None:
        while not os.path.exists(self.folder):  # noqa: PTH110 - what programs do, here and below
            self.pause()

    def joined(self) -> None:
        while not os.path.isfile(os.path.join(self.folder, "step", "done")):  # noqa: PTH113, PTH118
            self.pause()

    def formatted(self) -> None:
        number = 7
        while True:
            if os.path.exists(f"{self.folder}/step_{number}.pt"):  # noqa: PTH110
                break
            self.pause()

    def rounded(self) -> None:
        number = 7
        while not os.path.exists(f"{self.folder}/step_{number:04}.pt"):  # noqa: PTH110
            self.pause()

    def made_by_others(self) -> None:
        while not os.path.exists(sorted([self.folder])[0]):  # noqa: PTH110
            self.pause()

    def divided(self) -> None:
        folder = Path(self.folder)
        while not (folder / "step" / "done").is_file():
            self.pause()

    def of_path(self) -> None:
        while not Path(self.folder, "loaded").exists():
            self.pause()

    def helpers(self) -> None:
        while not is_there(self.folder + "/below"):
            self.pause_below()

    def method(self) -> None:
        while not self.is_there("name"):
            self.pause()

    def is_there(self, name: str) -> bool:
        return Path(self.folder, name).exists()

    def opens(self) -> None:
        while True:
            try:
                with open(f"{self.folder}/opened", encoding="utf-8"):  # noqa: PTH123
                    break
            except FileNotFoundError:
                self.pause()

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

    def asks_for_status(self) -> None:
        while True:
            try:
                os.stat(os.path.join(self.folder, "status"))  # noqa: PTH116, PTH118
                return
            except OSError:
                pass
            self.pause()

    def globs(self) -> None:
        while not glob.glob(self.folder + "/*.done"):  # noqa: PTH207
            self.pause()

    def globs_path(self) -> None:
        folder = Path(self.folder)
        while not list(folder.glob("*.pt")):
            self.pause()

    def writes(self) -> None:
        while True:
            try:
                with open(f"{self.folder}/log", "a"):  # noqa: PTH123
                    pass
            except OSError:
                self.pause()

    def opens_without_try(self) -> None:
        while True:
            with open("/dev/null"):  # noqa: PTH123
                pass
            self.pause()

    def no_file(self) -> None:
        if os.path.exists(self.folder):  # noqa: PTH110
            return
        while True:
            self.pause()

    def no_loop(self) -> None:
        if not os.path.exists(self.folder):  # noqa: PTH110
            self.pause()


def is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110


@pytest.mark.parametrize(
    ("loop", "file"),
    [
        (Waiting.exists, FOLDER),
        (Waiting.joined, f"{FOLDER}/step/done"),
        (Waiting.formatted, f"{FOLDER}/step_7.pt"),
        (Waiting.rounded, ""),
        (Waiting.made_by_others, ""),
        (Waiting.divided, f"{FOLDER}/step/done"),
        (Waiting.of_path, f"{FOLDER}/loaded"),
        (Waiting.helpers, f"{FOLDER}/below"),
        (Waiting.method, "name"),
        (Waiting.opens, f"{FOLDER}/opened"),
        (Waiting.reads, f"{FOLDER}/read"),
        (Waiting.asks_for_status, f"{FOLDER}/status"),
        (Waiting.globs, f"{FOLDER}/*.done"),
        (Waiting.globs_path, f"{FOLDER}/*.pt"),
        (Waiting.writes, None),
        (Waiting.opens_without_try, None),
        (Waiting.no_file, None),
        (Waiting.no_loop, None),
    ],
)
def test_the_file_that_a_loop_looks_for_is_named(loop: Callable[[Waiting], None], file: str | None) -> None:
    program = Waiting()

    with pytest.raises(Looked):
        loop(program)

    assert program.found == file
