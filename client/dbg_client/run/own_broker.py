"""The broker of a run: one that already runs, or a new one, which ends after a while without connections.

The run only starts the new broker. After that, the connection of the run's terminal keeps the broker alive.
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
from dbg_dial.endpoint import Route, is_loopback
from dbg_dial.find import DiscoveryOptions, find_broker
from dbg_dial.home import BROKER, HOME, home_directory
from dbg_dial.rank_list import fetch_rank_list
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
"""Log of a run's own broker. Each new broker empties it at its start."""

ANSWER_SECONDS = 2.0
"""Timeout for a broker's answer, in seconds: a broker in the same network answers within milliseconds."""

ATTEMPTS = 10
"""Attempts to find or start a broker while another broker starts or ends. A start takes about 0.3 seconds."""


class CantServe(ReasonedError):
    """Raised when the run's own broker did not start; the reason is the last line of its log."""

    exit_status = 4
    sentence = "no broker could be started: {reason}"


@dataclass(frozen=True, slots=True)
class BrokerInUse:
    """The broker of a run; ``process`` is set if the run has started it."""

    url: str
    process: subprocess.Popen[bytes] | None = None
    is_loopback: bool = False


def find_or_start(listen: str | None, environ: Mapping[str, str]) -> BrokerInUse:
    """Return the broker for a job: the one from DBG_BROKER or the home, else a new one that listens at ``listen``.

    Blocks until it answers. Raises DbgError if the broker from DBG_BROKER does not answer, or if none can be started.
    """
    if environ.get(BROKER):
        return _named(environ)
    home = Path(home_directory(environ))
    for _ in range(ATTEMPTS):
        found = _running(environ) or _start(home, listen, environ)
        if found is not None:
            return found
    raise CantServe(f"another broker has held the lock of {printable(str(home))} for long, but does not serve")


def notes_of(found: BrokerInUse, listen: str | None, command: tuple[str, ...]) -> Iterator[str]:
    """Yield sentences for the user about the broker of a run; ``listen`` is the option's value."""
    url = printable(found.url)
    if found.is_loopback and is_for_many_hosts(command):
        yield (
            f"the broker at {url} can't be reached from other hosts; stop it, and the next run starts a reachable one, "
            "or start `dbg-broker serve --listen 0.0.0.0`"
        )
    if found.process is not None and not found.is_loopback:
        why = "because of --listen" if listen is not None else "because this command may start ranks on other hosts"
        yield f"the broker can be reached from other hosts, at {url}, {why}"


def _running(environ: Mapping[str, str]) -> BrokerInUse | None:
    """Return the broker that already serves the home, on this host or another. Raises DbgError."""
    try:
        reach = _reach(environ)
    except (NoBroker, WrongHost):
        return None
    return BrokerInUse(reach.endpoint.url, is_loopback=is_loopback(reach.endpoint)) if _answers(reach) else None


def _reach(environ: Mapping[str, str]) -> Route:
    return find_broker(DiscoveryOptions(role="driver", argument_name="--broker"), None, environ)


def _answers(reach: Route) -> bool:
    """Return True if the broker answers; it then stays up for a while, as after any connection."""
    try:
        asyncio.run(fetch_rank_list(reach, "run", connect_seconds=ANSWER_SECONDS, seconds=ANSWER_SECONDS))
    except (BrokerUnreachable, NotABroker, WrongCertificate):
        return False
    except DbgError:
        # The broker has answered with a refusal, which the terminal will report.
        return True
    return True


def _named(environ: Mapping[str, str]) -> BrokerInUse:
    reach = _reach(environ)
    if not _answers(reach):
        raise BrokerUnreachable(reach.endpoint.url, "from DBG_BROKER; if you unset that, the run starts its own broker")
    return BrokerInUse(reach.endpoint.url)


def _start(home: Path, listen: str | None, environ: Mapping[str, str]) -> BrokerInUse | None:
    """Start a broker and wait until it serves; return None if another broker has the home.

    Raises CantServe, or BadSecretFile if nothing can be written to the home.
    """
    with _new_log(home) as log:
        process = subprocess.Popen(
            own_command(BROKER_PROGRAM, ["serve", "--while-used", *(["--listen", listen] if listen else [])]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**own_environment(environ), HOME: str(home)},
            # In the user's directory, the broker would keep that file system in use.
            cwd="/",
            start_new_session=True,
        )
    if process.stdout is None:
        raise CantServe("the broker has no output")
    with process.stdout:
        is_ready = bool(process.stdout.readline())
    found = _running(environ) if is_ready else None
    if found is not None:
        return replace(found, process=process)
    # The broker has ended, or it is useless because it can't be reached from here.
    process.terminate()
    if process.wait() != HOME_IS_SERVED:
        raise CantServe(_last_words(home / LOG_FILE) or f"the broker ended with status {process.returncode}")
    return None


def _last_words(log: Path) -> str:
    """Return the last line of a broker's log. Raises BadSecretFile if the log can't be written to."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        # The file system may be full. Then the broker can't start, and can't write the reason to its log. Check this.
        try:
            log.write_text("the broker wrote nothing\n", encoding="utf-8")
        except OSError as error:
            raise cant_write(log, error) from error
    return lines[-1] if lines else ""


def _new_log(home: Path) -> IO[str]:
    """Return the log of a new broker, emptied. Raises BadSecretFile."""
    try:
        make_private_directory(home)
        return open(home / LOG_FILE, "w", encoding="utf-8", opener=_private)
    except OSError as error:
        raise cant_write(home / LOG_FILE, error) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
