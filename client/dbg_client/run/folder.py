"""What is remembered of the last run of a directory, for ``--again``, and where the output of runs is.

All of it lies in the broker's home, a folder for each directory that runs were started in; its size is bounded.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from dbg_client.run.environment import cant_write
from dbg_client.run.keeper import is_written, lock_output
from dbg_client.run.options import RunOptions
from dbg_command.home import make_private_directory, write_whole
from dbg_dial.find import read_secret
from dbg_dial.home import check_closed
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.record import Record, plain

SCHEMA = 3

RUNS_FOLDER = "runs"
LAST_FILE = "last.json"
OUTPUT_SUFFIX = ".out"

OUTPUTS_KEPT = 1
"""Outputs of ended runs that stay beside the present one's: users compare with the run before."""

FOLDERS_KEPT = 64
"""Directories that are remembered, the newest; more than a user works in at a time."""

MAX_NAME = 60
"""Characters of a directory's name in its folder's name, for people; a number tells directories of one name apart."""


class Remembered(Record):
    """The last run of a directory, as it was typed."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    options: RunOptions
    schema: int = SCHEMA


class NothingToRepeat(BadInput):
    """No run in this directory is remembered."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"no run in {printable(directory)} is remembered", "give the command: dbg-attach run -- COMMAND"
        )


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder in which the runs of one directory are remembered."""

    path: Path

    def load(self) -> Remembered | None:
        """Return the last run, None if there was none or if what is there can't be used."""
        try:
            found = msgspec.convert(json.loads(read_secret(str(self.path / LAST_FILE))), Remembered)
        except (BadInput, OSError, ValueError, RecursionError):
            return None
        return found if found.schema == SCHEMA else None

    def save(self, remembered: Remembered) -> None:
        """Remember a run instead of the one before. Raise BadSecretFile."""
        path = self.path / LAST_FILE
        try:
            # A word of a command may hold what is no UTF-8, which JSON escapes.
            write_whole(path, json.dumps(plain(remembered), indent=1) + "\n", lasting=True)
        except OSError as error:
            raise cant_write(path, error) from error

    def open_output(self, job: str, given: str | None) -> tuple[int, Path]:
        """Return a descriptor and path for the output of a job: ``given``, or one here in place of older ones.

        The output is marked as written for as long as a process holds the descriptor. Raise BadInput.
        """
        path = Path(given) if given is not None else self.path / f"{job}{OUTPUT_SUFFIX}"
        if path.exists() and not path.is_file():
            # The output is read to show it: from a terminal that would take keys, and a pipe would wait for a reader.
            raise BadInput(f"--output {printable(str(path))} is no ordinary file", "give another --output")
        # Opened for reading as well if it is in the folder, since NFS grants a shared lock only then.
        access = os.O_WRONLY if given is not None else os.O_RDWR
        try:
            output = os.open(path, access | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInput(
                f"the output can't be written to {printable(str(path))} ({error.strerror})", "give another --output"
            ) from None
        lock_output(output)
        if given is None:
            self._remove_older(path)
        return output, path

    def _remove_older(self, newest: Path) -> None:
        ended = [path for path in self.path.glob(f"*{OUTPUT_SUFFIX}") if path != newest and not _is_written(path)]
        ended.sort(key=_changed, reverse=True)
        for path in ended[OUTPUTS_KEPT:]:
            # The reports of its hangs, which `run --on-hang` has had written beside it, go with it.
            for old in (path, *self.path.glob(f"{glob.escape(path.stem)}.hang*.txt")):
                with contextlib.suppress(OSError):
                    old.unlink()

    def make(self) -> None:
        """Make the folder if it is missing, and remove the oldest of too many. Raise OSError, or BadSecretFile."""
        make_private_directory(self.path)
        runs = self.path.parent
        check_closed(runs.parent.stat().st_mode, str(runs.parent))
        os.utime(self.path)
        _forget_oldest(runs, self.path)


def folder_of(home: str, directory: str) -> Folder:
    """Return the folder for runs of a directory, made or not."""
    name = f"{Path(directory).name[:MAX_NAME]}-{zlib.crc32(os.fsencode(directory)):08x}"
    return Folder(Path(home, RUNS_FOLDER, name))


def _forget_oldest(runs: Path, newest: Path) -> None:
    others = sorted((other for other in runs.iterdir() if other != newest), key=_changed, reverse=True)
    for other in others[FOLDERS_KEPT - 1 :]:
        if not any(_is_written(output) for output in other.glob(f"*{OUTPUT_SUFFIX}")):
            import shutil  # half of what a run needs to load, and hardly ever used

            shutil.rmtree(other, ignore_errors=True)


def _is_written(path: Path) -> bool:
    try:
        # Opened for writing, since NFS grants an exclusive lock only then.
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_written(descriptor)
    finally:
        os.close(descriptor)


def _changed(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
