"""What ``dbg-broker serve`` does beside serving: its first lines, its log, its service manager, its certificate."""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbg_broker.cli.token import TokenOptions, print_token, revoke, rotate
from dbg_broker.home.private_files import write_private
from dbg_broker.home.rendezvous import read_rendezvous
from dbg_broker.home.tokens import (
    ISSUED_FILE,
    IssuedTokens,
    RevokedToken,
    Role,
    Tokens,
    load_issued,
    load_tokens,
    save_issued,
)
from dbg_broker.serve.credentials import Credentials
from dbg_broker.serve.listening import announce, inherited
from dbg_broker.serve.service import (
    JsonLogFormatter,
    LogFormatter,
    ServiceManager,
    start_log,
)
from dbg_broker.settings import Listen, ServeSettings
from dbg_dial.endpoint import Endpoint, parse_driver_tokens
from dbg_dial.find import DRIVER_FILE
from dbg_wire import RELEASE
from tests.conftest import Approved
from tests.support.certificates import Authority
from tests.support.time_unit import seconds

# ---------------------------------------------------------------------------------------------------- the first lines

ENDPOINT = Endpoint(host="login1", port=6900, fingerprint="sha256:" + "0" * 64)


def announced(settings: ServeSettings, classic: socket.socket | None = None) -> str:
    lines: list[str] = []
    announce(settings, ENDPOINT, classic, lines.append)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "settings",
    [
        ServeSettings(home="/h"),
        ServeSettings(home="/h", listen=Listen(host="::", port=6900)),
        ServeSettings(home="/h", idle_seconds=1.0),
    ],
    ids=["loopback", "everywhere", "of a run"],
)
def test_broker_announces_how_to_connect(settings: ServeSettings, approved: Approved) -> None:
    text = announced(settings)
    assert ("export DBG_HOME=/h" in text) is (settings.idle_seconds is None)
    here = {RELEASE: "RELEASE", f"(pid {os.getpid()}": "(pid PID", socket.gethostname(): "HOST"}
    for found, shown in here.items():
        text = text.replace(found, shown)
    approved(text)


@pytest.mark.parametrize(
    "environ",
    [{}, {"LISTEN_FDS": "1"}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}, {"LISTEN_FDS": "0", "LISTEN_PID": "4711"}],
)
def test_sockets_of_another_process_are_left_alone(environ: dict[str, str]) -> None:
    assert inherited(environ, 4711) is None


# -------------------------------------------------------------------------------------------------- a service manager

PID = 4711


class Timers:
    """Timers that a test fires."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.call: Callable[[], None] | None = None

    def schedule(self, seconds: float, call: Callable[[], None]) -> None:
        self.pauses.append(seconds)
        self.call = call

    def fire(self) -> None:
        call = self.call
        assert call is not None
        call()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    is_abstract = request.param == "abstract"
    name = f"@dbg-broker-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name[1:]}" if is_abstract else name)
        receiver.setblocking(False)
        yield receiver, name


def received(receiver: socket.socket) -> list[str]:
    """Return all lines that have come."""
    lines: list[str] = []
    while True:
        try:
            lines += receiver.recv(4096).decode().split("\n")
        except BlockingIOError:
            return lines


def test_broker_notifies_the_service_manager(manager: tuple[socket.socket, str]) -> None:
    receiver, name = manager
    timers, statuses = Timers(), iter(["0 ranks", "0 ranks", "1 rank"])
    environ = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(PID)}
    service = ServiceManager(environ, PID, timers.schedule)
    service.ready(lambda: next(statuses))
    assert received(receiver) == ["READY=1", "WATCHDOG=1", "STATUS=0 ranks"]
    timers.fire()
    assert received(receiver) == ["WATCHDOG=1"]
    timers.fire()
    assert received(receiver) == ["WATCHDOG=1", "STATUS=1 rank"]
    assert timers.pauses == [1.5] * 3
    service.stopping()
    timers.fire()
    assert received(receiver) == ["STOPPING=1"]


# ------------------------------------------------------------------------------------------------------------ the log

HIDDEN = "correct-horse-battery"


def record(message: str, *values: object, exc_info: bool = False) -> logging.LogRecord:
    """Return a record as a logger makes it."""
    error = sys.exc_info() if exc_info else None
    return logging.LogRecord("dbg_broker", logging.INFO, "file.py", 1, message, values, error)


def test_tokens_are_hidden_in_messages_values_and_tracebacks() -> None:
    formatter = LogFormatter()
    formatter.hide([HIDDEN, ""])
    assert formatter.format(record("with %s in it", HIDDEN)).endswith(" INFO with <token> in it")
    try:
        raise ValueError(f"no header {HIDDEN}")
    except ValueError:
        text = formatter.format(record("fails", exc_info=True))
    assert "ValueError: no header <token>" in text
    assert HIDDEN not in text


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("verbosity", "level"), [(0, "WARNING"), (1, "INFO"), (2, "DEBUG"), (7, "DEBUG")])
def test_each_v_option_adds_a_log_level_in_the_chosen_format(
    verbosity: int, level: str, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    start_log(verbosity, as_json=as_json)
    assert logging.getLevelName(root.level) == level
    form = JsonLogFormatter if as_json else LogFormatter
    assert [type(handler.formatter) for handler in root.handlers] == [form]


def test_json_log_record_is_one_document_without_tokens() -> None:
    formatter = JsonLogFormatter()
    formatter.hide([HIDDEN])
    line = formatter.format(record("with %s\nin it", HIDDEN))
    document = json.loads(line)
    assert "\n" not in line
    assert abs(document.pop("at") - time.time()) < 3600
    assert document == {"level": "info", "logger": "dbg_broker", "message": "with <token>\nin it"}
    try:
        raise ValueError(f"no header {HIDDEN}")
    except ValueError:
        failed = json.loads(formatter.format(record("fails", exc_info=True)))
    assert failed["exc"].endswith("ValueError: no header <token>")


# -------------------------------------------------------------------------------------------- tokens and certificate


class Watching:
    """Credentials of a broker that serves, and the updates that its event loop gets, in order."""

    def __init__(self, home: Path, given: tuple[str, str] | None = None) -> None:
        self.updates: queue.Queue[object] = queue.Queue()
        self.credentials = Credentials(home, given, LogFormatter())
        self.credentials.serve_at("h", 1)
        self.credentials.write()
        self.credentials.watch(lambda call, value: call(value), self.updates.put, self.updates.put)

    def next(self) -> object:
        """Return the next update of the event loop."""
        return self.updates.get(timeout=seconds(20))


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Watching]]:
    monkeypatch.setattr("dbg_broker.serve.credentials.CHECK_SECONDS", 0.01)
    begun: list[Watching] = []

    def start(home: Path, given: tuple[str, str] | None = None) -> Watching:
        begun.append(Watching(home, given))
        return begun[-1]

    yield start
    for one in begun:
        one.credentials.close()


def test_changed_tokens_are_reported_after_the_home_files_are_written(
    watching: Callable[..., Watching], made_home: Path
) -> None:
    found = watching(made_home)
    assert print_token(made_home, TokenOptions(role=Role.DRIVER, name="bob"), print, print) == 0
    issued = found.next()
    assert isinstance(issued, Tokens)
    assert [one.name for one in issued.issued.tokens] == ["bob"]
    assert revoke(made_home, "bob", print, print) == 0
    assert found.next() == replace(issued, issued=load_issued(made_home))
    assert rotate(made_home, print, print) == 0
    while found.credentials.tokens != load_tokens(made_home):
        found.next()
    assert parse_driver_tokens((made_home / DRIVER_FILE).read_text(), "p") == load_tokens(made_home).of_terminals()


def test_unreadable_tokens_are_reported_once_and_a_later_change_is_used(
    watching: Callable[..., Watching], made_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = load_tokens(made_home)
    found = watching(made_home)
    fails, lasted = iter([RuntimeError("can't start new thread")]), threading.Semaphore(0)

    def load() -> Tokens:
        lasted.release()
        for error in fails:
            raise error
        return load_tokens(made_home)

    found.credentials._tokens._read = load
    write_private(made_home / ISSUED_FILE, "no list")
    for _ in range(4):
        assert lasted.acquire(timeout=seconds(20))
    revoked = RevokedToken(digest="0" * 64, since=1.0)
    save_issued(made_home, IssuedTokens(revoked=(revoked,)))
    changed = found.next()
    assert isinstance(changed, Tokens)
    assert (changed.rank, changed.issued.revoked) == (made.rank, (revoked,))
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 2


def test_broker_announced_during_a_write_is_in_the_next_write(
    watching: Callable[..., Watching], made_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials, written = watching(made_home).credentials, threading.Semaphore(0)
    write = credentials.write

    def write_and_name() -> None:
        write()
        if len(credentials._others) == 1:
            credentials.announce_brokers(two)
        written.release()

    two = ENDPOINT, replace(ENDPOINT, host="login2")
    monkeypatch.setattr(credentials, "write", write_and_name)
    credentials.announce_brokers(two[:1])
    for _ in range(2):
        assert written.acquire(timeout=seconds(20))


def test_renewed_certificate_is_used_and_an_invalid_one_ignored(
    watching: Callable[..., Watching], made_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    _, certificate, _, key = authority.issue("own", "h")
    found, logged = watching(made_home, (certificate, key)), threading.Event()
    monkeypatch.setattr("dbg_broker.serve.credentials.logger.error", lambda *_: logged.set())
    before = found.credentials.shown
    authority.issue("own", "h", days=-1, from_days=-2)
    assert logged.wait(seconds(20))
    assert found.credentials.shown is before
    authority.issue("own", "h")
    while (context := found.next()) is not found.credentials.shown.context:
        assert isinstance(context, ssl.SSLContext)
    assert found.credentials.shown.fingerprint != before.fingerprint
    # A revoked token is taken whatever the certificate is.
    Path(key).unlink()
    assert print_token(made_home, TokenOptions(role=Role.DRIVER, name="bob"), print, print) == 0
    assert isinstance(found.next(), Tokens)
    rendezvous = read_rendezvous(made_home)
    assert rendezvous is not None
    assert rendezvous.fingerprint == found.credentials.shown.fingerprint
