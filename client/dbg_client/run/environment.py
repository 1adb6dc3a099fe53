"""Environments of a run's processes: the job's ranks, and our own programs that the run starts.

The job gets a token only for its own ranks. Our programs come from this installation, never from the user's directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from dbg_client.run.folder import changed_at
from dbg_client.run.options import RunOptions
from dbg_command.home import JOB_TOKENS_DIRECTORY, job_token, make_private_directory, write_whole
from dbg_dial.endpoint import RENDEZVOUS_FILE, parse_rendezvous
from dbg_dial.find import read_if_there
from dbg_dial.home import (
    BROKER,
    COLLECTIVE_TIMEOUT,
    ENGINE,
    HOME,
    JOB,
    NUMBERS,
    POST_MORTEM,
    RANKS,
    STOP_AT,
    STOP_IN,
    TOKEN,
    TOKEN_FILE,
)
from dbg_wire.errors import BadSecretFile, printable
from dbg_wire.records.record import encode_record
from dbg_wire.records.stop_points import StopAt

MANY_HOSTS = frozenset(
    {
        *("srun", "sbatch", "salloc", "mpirun", "mpiexec", "mpiexec.hydra", "prun", "prterun", "orterun", "jsrun"),
        *("flux", "aprun", "pdsh", "ssh", "clush", "deepspeed", "ray", "bsub", "qsub", "msrun", "horovodrun"),
    }
)
"""Commands that usually start ranks on other hosts, which can't reach a broker on this host's loopback."""

_MORE_NODES = re.compile(r"--(?:nnodes|num[-_]machines|worker[-_]num)(?:=(?P<value>.*))?")

MAX_NAME = 40
"""Maximum characters of a job's name from its script, so that the list has room for other columns."""

MAX_KEPT = 1000
"""Maximum number of job token files; the newest are kept, because a job and its guards may outlive its run."""


def is_for_many_hosts(command: Sequence[str]) -> bool:
    """Return True if a command may start ranks on other hosts."""
    if any(word in MANY_HOSTS for word in takewhile(_is_before_program, (word.rpartition("/")[2] for word in command))):
        return True
    for word, following in zip(command, [*command[1:], ""], strict=True):
        found = _MORE_NODES.fullmatch(word)
        if found is not None and (found["value"] if found["value"] is not None else following) not in ("1", "1:1"):
            return True
    return False


def _is_before_program(word: str) -> bool:
    """Return True if a launcher may follow ``word`` in a command, as in `timeout 60 srun`, `env A=1 mpirun`."""
    return not (word.endswith(".py") or word.startswith("python") or word == "torchrun")


def job_name(command: Sequence[str], number: str, former: str | None) -> str:
    """Return the name of a job: DBG_JOB, or else its script or command.

    The name ends with ``number``, which no other run on this host has.
    """
    name = former or _name(command)
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:MAX_NAME]}-{number}"


def _name(command: Sequence[str]) -> str:
    for word in command:
        if word.endswith(".py"):
            return word.rpartition("/")[2].removesuffix(".py")
    for word, following in pairwise(command):
        if word == "-m":
            return following.rpartition(".")[2]
    return command[0].rpartition("/")[2]


def job_environment(
    environ: Mapping[str, str],
    *,
    home: str,
    job: str,
    options: RunOptions,
    token_file: str | None = None,
) -> dict[str, str]:
    """Return the environment of a job: the run's own, plus the variables for its ranks.

    ``token_file`` contains the token of this job, or is None if its ranks use the home's token.
    """
    ours = {
        HOME: home,
        JOB: job,
        TOKEN_FILE: token_file,
        STOP_AT: "\n".join(stop.typed for stop in options.stops if isinstance(stop, StopAt)),
        STOP_IN: "\n".join(options.stop_in),
        NUMBERS: encode_record(options.watch) if options.watch.is_watch else None,
        RANKS: options.ranks,
        ENGINE: options.engine,
        POST_MORTEM: "1" if options.post_mortem else None,
        COLLECTIVE_TIMEOUT: options.collective_timeout,
    }
    # The output goes to a file; with buffering it would appear there in blocks, long after it was printed.
    return {"PYTHONUNBUFFERED": "1", **environ, **{name: value for name, value in ours.items() if value is not None}}


def token_file_of(job: str, home: str, environ: Mapping[str, str]) -> str | None:
    """Return a new file with the token of a job. Raises BadSecretFile if it can't be written.

    Return None if the user has named a broker or a token, or if no broker serves this home.
    """
    # A run within another run's job has that job's token, which is not valid for ranks of this job.
    is_of_another_run = Path(environ.get(TOKEN_FILE, "")).parent == Path(home) / JOB_TOKENS_DIRECTORY
    chosen = (BROKER, TOKEN) if is_of_another_run else (BROKER, TOKEN, TOKEN_FILE)
    if any(environ.get(name) for name in chosen):
        return None
    path = os.path.join(home, RENDEZVOUS_FILE)  # noqa: PTH118 - both readers take a str
    text = read_if_there(path)
    rank_token = None if text is None else parse_rendezvous(text, path).tokens.get("rank")
    return None if rank_token is None else str(_write_token(Path(home), job, job_token(rank_token, job)))


def _write_token(home: Path, job: str, token: str) -> Path:
    """Write the token of a job, and return its file; remove the oldest files above MAX_KEPT. Raises BadSecretFile."""
    directory = home / JOB_TOKENS_DIRECTORY
    path = directory / job
    try:
        make_private_directory(directory)
        write_whole(path, token + "\n", lasting=True)
    except OSError as error:
        raise cant_write(path, error) from error
    others = sorted((file for file in directory.iterdir() if file != path), key=changed_at, reverse=True)
    for file in others[MAX_KEPT - 1 :]:
        file.unlink(missing_ok=True)
    return path


def cant_write(path: Path, error: OSError) -> BadSecretFile:
    """Return the error for a file of the home that can't be written."""
    return BadSecretFile(
        f"{printable(str(path))} can't be written ({error.strerror})", "free space there, or set DBG_HOME"
    )
