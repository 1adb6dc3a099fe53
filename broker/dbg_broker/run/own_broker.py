"""The broker that a run uses: the one that is there, or one of its own that stays as long as it is needed.

A broker of its own gets the options of ``serve`` that ``run`` has, too; of one that is there it is told what differs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from dbg_broker.home.in_use import hold
from dbg_broker.home.private_files import cant_write, open_home, read_private, write_private
from dbg_broker.home.rendezvous import lock, read_rendezvous
from dbg_broker.run.environment import is_for_many_hosts, own_command, own_environment
from dbg_broker.run.settings import EVENT_DIRECTORY, Option, Options
from dbg_wire.errors import BadSecretFile, BrokerUnreachable, DbgError, ReasonedError, printable
from dbg_wire.finding.endpoint import is_loopback, wrong_host_reason
from dbg_wire.finding.environment import BROKER
from dbg_wire.finding.rendezvous import Rendezvous

MAX_SHOWN = 300
"""Characters of options in a sentence."""

LOG_FILE = "run-broker.log"
"""The log of a run's own broker; each broker begins it anew."""

STARTED_FILE = "run-broker.json"
"""Which broker a run has started last, and with which options, for the runs that find it."""

ANSWER_SECONDS = 2.0
"""Seconds given to a broker on another host: a broker on this cluster takes milliseconds."""

RESTARTS = 3
"""Brokers that a run finds or starts in place of ones that died, at most: a further one would die, too."""

ATTEMPTS = 20
ATTEMPT_PAUSE_SECONDS = 0.1
"""Attempts to find or start a broker while another one of the same home starts or ends: two seconds, twice the longest
time that a start or an end takes."""


class StartedBy(NamedTuple):
    """The broker that a run has started: the host and process that it is, and its options."""

    host: str
    pid: int
    options: Options


def words_of(options: Options) -> Iterator[str]:
    """Return the options as words of a command line."""
    for option in options:
        # A value may begin with a hyphen.
        yield option.name if option.value is None else f"{option.name}={option.value}"


def notes_on(wanted: Options, has: Options, url: str, pid: int | None = None) -> Iterator[str]:
    """Return what to say of a broker that serves already with the options ``has``, as sentences.

    ``pid`` is that of its process, None if it is on another host.
    """
    missing, more = _names(wanted, has), _shown(option for option in has if option not in wanted)
    where = f"the broker at {printable(url)}"
    if missing:
        verb = "changes" if len(missing) == 1 else "change"
        yield (
            f"{where} runs already, and {' and '.join(missing)} {verb} nothing there; stop it"
            f"{f' by `kill {pid}`' if pid is not None else ''}, and the run starts one of its own with what you gave"
        )
    elif more:
        yield f"{where} was started by an earlier run, and still has its {more}"


def format_started(started: StartedBy) -> str:
    """Return the text of the file that tells later runs of a broker."""
    return json.dumps(started) + "\n"


def options_of(text: str | None, host: str, pid: int) -> Options:
    """Return the options of the broker that is this process, none if the text tells of another one or can't be read."""
    try:
        started = msgspec.convert(json.loads(text or ""), StartedBy)
    except (ValueError, RecursionError):
        return ()
    return started.options if (started.host, started.pid) == (host, pid) else ()


def _names(wanted: Options, has: Options) -> list[str]:
    return list(dict.fromkeys(option.name for option in wanted if option not in has and option.name != EVENT_DIRECTORY))


def _shown(options: Iterable[Option]) -> str:
    shown = (one for one in options if one.name != EVENT_DIRECTORY)
    words = (f"{one.name} {shlex.quote(one.value)}" if one.value else one.name for one in shown)
    return printable(" ".join(words), MAX_SHOWN)


class CantServe(ReasonedError):
    """The run's own broker did not start; the reason is the last line of its log."""

    exit_status = 4
    sentence = "no broker could be started: {reason}"


@dataclass(frozen=True, slots=True)
class Found:
    """The broker of a run: ``hold`` keeps it if it is on this host; ``process`` is set if the run started it.

    ``options`` are those that a run has handed to it; none if it was started in another way. ``pid`` is that of a
    broker of this host that served already.
    """

    url: str
    hold: int | None = None
    process: subprocess.Popen[bytes] | None = None
    is_loopback: bool = False
    options: Options = ()
    pid: int | None = None


def find_or_start(home: str, listen: str, options: Options, environ: Mapping[str, str]) -> Found:
    """Return the broker for a job: one that DBG_BROKER or the home names, else a new one that listens at ``listen``.

    Only a new one is given the ``options``. Blocks until it answers. Raise DbgError if the broker that DBG_BROKER names
    does not, or if none can be started.
    """
    if environ.get(BROKER):
        return _named(home, environ)
    folder = open_home(home)
    for _ in range(ATTEMPTS):
        found = _running(folder)
        if found is not None:
            return found
        free = lock(folder)
        if free is not None:
            free.close()
            found = _start(folder, listen, options, environ)
            if found is not None:
                return found
        # Another broker starts or ends, perhaps that of another run. A wait for its lock has no time limit.
        time.sleep(ATTEMPT_PAUSE_SECONDS)
    raise CantServe(f"another one has held the lock of {folder} for long, and does not serve")


class RunBroker:
    """The broker of one run: found or started, held as long as the run needs it, and replaced if it dies."""

    def __init__(self, home: str, listen: str, options: Options, environ: Mapping[str, str]) -> None:
        self.found = Found("")
        self._asked = (home, listen, options, environ)
        self._processes: list[subprocess.Popen[bytes]] = []
        """Those that this run has started and that have not been waited for yet."""
        self._restarts = 0

    def find(self) -> None:
        """Find or start it. Raise DbgError as :func:`find_or_start` does."""
        self.found = find_or_start(*self._asked)
        if self.found.process is not None:
            self._processes.append(self.found.process)

    def has_died(self, *, is_needed: bool) -> None:
        """Let go of one that has died, and find or start another if that ``is_needed``, a few times."""
        self.release()
        if not is_needed or self._restarts == RESTARTS:
            return
        self._restarts += 1
        # The terminal shows the outcome, as the screen is the terminal's.
        with contextlib.suppress(DbgError):
            self.find()

    def reap(self) -> None:
        """Take note of processes that have ended."""
        self._processes = [process for process in self._processes if process.poll() is None]

    def release(self) -> None:
        """Need it no more; a second call does nothing."""
        if self.found.hold is not None:
            os.close(self.found.hold)
        self.found = Found(self.found.url)


def notes_of(found: Found, options: Options, command: tuple[str, ...], *, asks_where: bool) -> Iterator[str]:
    """Return what the user should know of the broker of a run, as sentences; ``asks_where``: ``--listen`` was given."""
    url = printable(found.url)
    if found.is_loopback and is_for_many_hosts(command):
        yield (
            f"the broker at {url} can't be reached from other hosts; stop it, and the run starts one that can, or "
            "start `dbg-broker serve --listen 0.0.0.0`"
        )
    if found.process is None:
        yield from notes_on(options, found.options, found.url, found.pid)
    elif not found.is_loopback:
        why = "as --listen asks" if asks_where else "since this command may start ranks on other hosts"
        yield f"the broker listens beyond this host, at {url}, {why}"


def _running(home: Path) -> Found | None:
    """Return the broker that serves this home already, on this host or on another one; on this host it is held."""
    held = hold(home)
    try:
        rendezvous = read_rendezvous(home)
    except BadSecretFile:
        rendezvous = None
    if rendezvous is not None:
        reason = wrong_host_reason(rendezvous.endpoint, rendezvous.host, socket.gethostname(), who="terminal")
        is_near = reason is None and rendezvous.host == socket.gethostname()
        if (held is not None and is_near) or (reason is None and _answers(rendezvous)):
            return Found(
                rendezvous.url,
                held,
                is_loopback=is_loopback(rendezvous.endpoint),
                options=_options(home, rendezvous),
                pid=rendezvous.pid if is_near else None,
            )
    if held is not None:
        os.close(held)
    return None


def _options(home: Path, rendezvous: Rendezvous) -> Options:
    """Return what a run has handed to this broker when it started it."""
    with contextlib.suppress(BadSecretFile):
        return options_of(read_private(home / STARTED_FILE), rendezvous.host, rendezvous.pid)
    return ()


def _note_start(home: Path, options: Options, pid: int) -> None:
    """Tell later runs of a new broker; they would only say less without it."""
    with contextlib.suppress(BadSecretFile):
        write_private(home / STARTED_FILE, format_started(StartedBy(socket.gethostname(), pid, options)))


def _answers(rendezvous: Rendezvous) -> bool:
    # The import loads TLS and more, which a run with a broker on this host doesn't need.
    from dbg_broker.verbs.broker_client import answers

    return answers(rendezvous.endpoint, ANSWER_SECONDS)


def _named(home: str, environ: Mapping[str, str]) -> Found:
    from dbg_broker.verbs.broker_client import answers, find_broker

    reach = find_broker(None, home, environ, "rank")
    if not answers(reach.endpoint, ANSWER_SECONDS):
        raise BrokerUnreachable(reach.endpoint.url, "DBG_BROKER names it; unset that, and the run starts its own")
    return Found(reach.endpoint.url)


def _start(home: Path, listen: str, options: Options, environ: Mapping[str, str]) -> Found | None:
    """Start a broker and wait until it serves; return None if another one was first.

    Raise CantServe, or BadSecretFile for a home in which nothing can be written.
    """
    arguments = ["serve", "--while-used", "--home", str(home), *(["--listen", listen] if listen else [])]
    arguments += words_of(options)
    with _new_log(home) as log:
        process = subprocess.Popen(
            own_command("dbg_broker.cli.main", arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=own_environment(environ),
            # Otherwise the broker would keep the user's directory in use.
            cwd="/",
            start_new_session=True,
        )
    if process.stdout is None:
        raise CantServe("it has no output")
    with process.stdout:
        is_ready = bool(process.stdout.readline())
    found = _running(home) if is_ready else None
    if found is not None:
        _note_start(home, options, process.pid)
        return replace(found, process=process, options=options)
    # It has ended, or can't be reached from here, and then is of no use.
    process.terminate()
    process.wait()
    _require_another(home, process)
    return None


def _require_another(home: Path, process: subprocess.Popen[bytes]) -> None:
    """Raise CantServe, with the last words of the run's own broker, unless another one has the home.

    Raise BadSecretFile if the home takes no words.
    """
    free = lock(home)
    if free is None:
        return
    free.close()
    lines = (home / LOG_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        # On a full file system the broker can neither begin nor say so: its log lies there, too.
        write_private(home / LOG_FILE, f"it ended with status {process.returncode}\n")
    raise CantServe(lines[-1] if lines else f"it ended with status {process.returncode} and said nothing")


def _new_log(home: Path) -> IO[str]:
    """Return the log of a new broker, which is empty. Raise BadSecretFile."""
    try:
        return open(home / LOG_FILE, "w", encoding="utf-8", opener=_private)
    except OSError as error:
        raise cant_write(home / LOG_FILE, error) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
