"""Folders for the output of runs, in the broker's home: one folder for each directory in which runs were started.

Their number and size are bounded.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from dbg_command.home import NO_LOCKS_HERE, make_private_directory
from dbg_dial.home import check_closed
from dbg_wire.errors import BadInput, printable

RUNS_FOLDER = "runs"
OUTPUT_SUFFIX = ".out"

OUTPUTS_KEPT = 1
"""Outputs of ended runs to keep in addition to the current one, so that users can compare with the previous run."""

FOLDERS_KEPT = 64
"""Maximum number of folders; the oldest are removed. A user works in fewer directories at a time."""

MAX_NAME = 60
"""Maximum characters at the start of a folder's name that are copied from the directory's name.

They show people which directory it is. A checksum after them makes the folder's name unique.
"""

SILENT_SECONDS = 7 * 24 * 3600.0
"""Time without a write, in seconds, after which a job is considered ended on a file system without locks."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder with the outputs of the runs of one directory."""

    path: Path

    def open_output(self, job: str, given: str | None) -> tuple[int, Path]:
        """Return a descriptor and path for the output of a job: ``given``, or a new file here that replaces older ones.

        A lock marks the output as in use while a process holds the descriptor. Raises BadInput.
        """
        path = Path(given) if given is not None else self.path / f"{job}{OUTPUT_SUFFIX}"
        if path.exists() and not path.is_file():
            # The run also reads this file: reading a terminal would take the user's keys, and a pipe would block.
            raise BadInput(f"--output {printable(str(path))} is not a regular file", "use another --output")
        # Files in the folder are also opened for reading, because NFS grants a shared lock only then.
        access = os.O_WRONLY if given is not None else os.O_RDWR
        try:
            output = os.open(path, access | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInput(
                f"the output can't be written to {printable(str(path))} ({error.strerror})", "use another --output"
            ) from None
        with contextlib.suppress(OSError):
            fcntl.flock(output, fcntl.LOCK_SH)
        if given is None:
            self._remove_older(path)
        return output, path

    def _remove_older(self, newest: Path) -> None:
        ended = [path for path in self.path.glob(f"*{OUTPUT_SUFFIX}") if path != newest and not is_written(path)]
        ended.sort(key=changed_at, reverse=True)
        for path in ended[OUTPUTS_KEPT:]:
            # Also remove the reports of the job's hangs, which `run --on-hang` has written next to the output.
            for old in (path, *self.path.glob(f"{glob.escape(path.stem)}.hang*.txt")):
                with contextlib.suppress(OSError):
                    old.unlink()

    def make(self) -> None:
        """Create the folder if missing; remove the oldest folders above FOLDERS_KEPT. Raises OSError, BadSecretFile."""
        make_private_directory(self.path)
        runs = self.path.parent
        check_closed(runs.parent.stat().st_mode, str(runs.parent))
        os.utime(self.path)
        _forget_oldest(runs, self.path)


def folder_of(home: str, directory: str) -> Folder:
    """Return the folder for runs of a directory; it may not exist yet."""
    name = f"{Path(directory).name[:MAX_NAME]}-{zlib.crc32(os.fsencode(directory)):08x}"
    return Folder(Path(home, RUNS_FOLDER, name))


def _forget_oldest(runs: Path, newest: Path) -> None:
    others = sorted((other for other in runs.iterdir() if other != newest), key=changed_at, reverse=True)
    for other in others[FOLDERS_KEPT - 1 :]:
        if not any(is_written(output) for output in other.glob(f"*{OUTPUT_SUFFIX}")):
            import shutil  # rarely needed, and as large as all other imports of a run together

            shutil.rmtree(other, ignore_errors=True)


def is_written(path: Path) -> bool:
    """Return True if the job of an output is still running."""
    try:
        # Open the file for writing, because NFS grants an exclusive lock only then.
        with path.open("r+b") as output:
            fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        return error.errno in NO_LOCKS_HERE and time.time() - changed_at(path) < SILENT_SECONDS
    return False


def changed_at(path: Path) -> float:
    """Return the time of a file's or folder's last change, or 0 if it is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
