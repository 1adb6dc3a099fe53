"""The token of a run's job, in a file of its own: ranks of the job may read it, and it admits to no other job."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

from dbg_broker.home.rendezvous import make_private_directory, write_private
from dbg_broker.home.tokens import Tokens

JOB_TOKENS_DIRECTORY = "job-tokens"

MAX_KEPT = 100
"""Files of jobs that are not known to be over: a job outlives its run if its terminal is closed, and may dial again."""

OVER_MODE = 0o400
"""The mode of a file whose job is over."""


def write_job_token(home: Path, job: str, token: str) -> Path:
    """Write the token of a job, and return its file; those of jobs that are over are removed. Raise BadSecretFile."""
    directory = home / JOB_TOKENS_DIRECTORY
    make_private_directory(directory)
    path = directory / job
    write_private(path, token + "\n")
    others = sorted((file for file in directory.iterdir() if file != path), key=_order)
    over = sum(1 for file in others if _is_over(file))
    for file in others[: max(over, len(others) - MAX_KEPT)]:
        file.unlink(missing_ok=True)
    return path


def job_is_over(path: Path) -> None:
    """Mark a job's token as one that the next run removes: a guard may still have to tell how its rank has ended."""
    with contextlib.suppress(OSError):
        path.chmod(OVER_MODE)


def renew_job_tokens(home: Path, tokens: Tokens) -> None:
    """Write the tokens of all jobs anew after the rank's token has changed. Raise BadSecretFile."""
    with contextlib.suppress(FileNotFoundError):
        for file in list((home / JOB_TOKENS_DIRECTORY).iterdir()):
            write_private(file, tokens.for_job(file.name) + "\n")


def _is_over(file: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_IMODE(file.stat().st_mode) == OVER_MODE
    return False


def _order(file: Path) -> tuple[bool, float]:
    """Return what sorts the files of jobs that are over before the others, and older ones before newer ones."""
    with contextlib.suppress(OSError):
        return not _is_over(file), file.stat().st_mtime
    return True, 0.0
