"""The broker that a run uses: the one that is there, or one of its own, which ends when nobody has used it for a while.

A run only starts it; from then on the connection of the run's terminal keeps it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from dbg_client.core.own_process import BROKER as BROKER_PROGRAM
from dbg_client.core.own_process import own_command, own_environment
from dbg_client.run.environment import cant_write, is_for_many_hosts
from dbg_command.home import make_private_directory
from dbg_dial.endpoint import Reach, is_loopback
from dbg_dial.find import Seeker, find_broker
from dbg_dial.glance import glance
from dbg_dial.home import BROKER, HOME, home_directory
from dbg_wire.errors import (
    HOME_IS_SERVED,
    BrokerUnreachable,
    DbgError,
    NoBroker,
    NotABroker,
    ReasonedError,
    WrongCertificate,
    WrongHost,
    printable,
)

LOG_FILE = "run-broker.log"
"""The log of a run's own broker; each broker begins it anew."""

ANSWER_SECONDS = 2.0
"""Seconds given to a broker to answer: a broker on this cluster takes milliseconds."""

ATTEMPTS = 10
"""Attempts to find or start a broker while another run starts one, or one ends. A start takes about 0.3 seconds."""


class CantServe(ReasonedError):
    """The run's own broker did not start; the reason is the last line of its log."""

    exit_status = 4
    sentence = "no broker could be started: {reason}"


@dataclass(frozen=True, slots=True)
class Found:
    """The broker of a run; ``process`` is set if the run has started it."""

    url: str
    process: subprocess.Popen[bytes] | None = None
    is_loopback: bool = False


def find_or_start(listen: str | None, environ: Mapping[str, str]) -> Found:
    """Return the broker for a job: one that DBG_BROKER or the home names, else a new one that listens at ``listen``.

    Blocks until it answers. Raise DbgError if the broker that DBG_BROKER names does not, or if none can be started.
    """
    if environ.get(BROKER):
        return _named(environ)
    home = Path(home_directory(environ))
    for _ in range(ATTEMPTS):
        found = _running(environ) or _start(home, listen, environ)
        if found is not None:
            return found
    raise CantServe(f"another one has held the lock of {printable(str(home))} for long, and does not serve")


def notes_of(found: Found, listen: str | None, command: tuple[str, ...]) -> Iterator[str]:
    """Return what the user should know of the broker of a run, as sentences; ``listen`` is as typed."""
    url = printable(found.url)
    if found.is_loopback and is_for_many_hosts(command):
        yield (
            f"the broker at {url} can't be reached from other hosts; stop it, and the run starts one that can, or "
            "start `dbg-broker serve --listen 0.0.0.0`"
        )
    if found.process is not None and not found.is_loopback:
        why = "as --listen asks" if listen is not None else "since this command may start ranks on other hosts"
        yield f"the broker listens beyond this host, at {url}, {why}"


def _running(environ: Mapping[str, str]) -> Found | None:
    """Return the broker that serves the home already, on this host or on another one. Raise DbgError."""
    try:
        reach = _reach(environ)
    except (NoBroker, WrongHost):
        return None
    return Found(reach.endpoint.url, is_loopback=is_loopback(reach.endpoint)) if _answers(reach) else None


def _reach(environ: Mapping[str, str]) -> Reach:
    return find_broker(Seeker(role="driver", argument_name="--broker"), None, environ)


def _answers(reach: Reach) -> bool:
    """Tell whether it is the broker that answers; one that does stays for a while, as after any visitor."""
    try:
        asyncio.run(glance(reach, "run", connect_seconds=ANSWER_SECONDS, seconds=ANSWER_SECONDS))
    except (BrokerUnreachable, NotABroker, WrongCertificate):
        return False
    except DbgError:
        # It answers, and the terminal will tell what it refuses.
        return True
    return True


def _named(environ: Mapping[str, str]) -> Found:
    reach = _reach(environ)
    if not _answers(reach):
        raise BrokerUnreachable(reach.endpoint.url, "DBG_BROKER names it; unset that, and the run starts its own")
    return Found(reach.endpoint.url)


def _start(home: Path, listen: str | None, environ: Mapping[str, str]) -> Found | None:
    """Start a broker and wait until it serves; return None if another one has the home.

    Raise CantServe, or BadSecretFile for a home in which nothing can be written.
    """
    with _new_log(home) as log:
        process = subprocess.Popen(
            own_command(BROKER_PROGRAM, ["serve", "--while-used", *(["--listen", listen] if listen else [])]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**own_environment(environ), HOME: str(home)},
            # Otherwise the broker would keep the user's directory in use.
            cwd="/",
            start_new_session=True,
        )
    if process.stdout is None:
        raise CantServe("it has no output")
    with process.stdout:
        is_ready = bool(process.stdout.readline())
    found = _running(environ) if is_ready else None
    if found is not None:
        return replace(found, process=process)
    # It has ended, or can't be reached from here, and then is of no use.
    process.terminate()
    if process.wait() != HOME_IS_SERVED:
        raise CantServe(_last_words(home / LOG_FILE) or f"it ended with status {process.returncode}")
    return None


def _last_words(log: Path) -> str:
    """Return the last line of a broker's log. Raise BadSecretFile if it can't be written to."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        # On a full file system the broker can neither begin nor say so: its log lies there, too.
        try:
            log.write_text("it said nothing\n", encoding="utf-8")
        except OSError as error:
            raise cant_write(log, error) from error
    return lines[-1] if lines else ""


def _new_log(home: Path) -> IO[str]:
    """Return the log of a new broker, which is empty. Raise BadSecretFile."""
    try:
        make_private_directory(home)
        return open(home / LOG_FILE, "w", encoding="utf-8", opener=_private)
    except OSError as error:
        raise cant_write(home / LOG_FILE, error) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
