"""What ``dbg-broker serve`` does beside serving: its first lines, its log, its service manager, its certificate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbg_broker.home.certificate import Shown, load_given, load_own
from dbg_broker.home.tokens import Tokens, load_tokens
from dbg_broker.settings import Listen, ServeSettings
from dbg_broker.verbs.credentials import Credentials, CredentialSources
from dbg_broker.verbs.listening import announce, inherited
from dbg_broker.verbs.service import (
    JsonLogFormatter,
    LogFormatter,
    ServiceManager,
    start_log,
)
from dbg_wire.errors import BadSecretFile, DbgError
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.version import RELEASE
from tests.conftest import Approved
from tests.support.certificates import Authority

# ---------------------------------------------------------------------------------------------------- the first lines

ENDPOINT = Endpoint(host="login1", port=6900, fingerprint="sha256:" + "0" * 64)


def said(settings: ServeSettings, classic: socket.socket | None = None) -> str:
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
def test_a_broker_says_what_a_user_has_to_know(settings: ServeSettings, approved: Approved) -> None:
    text = said(settings)
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
    """Timers that fire when a test says so."""

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


def test_a_broker_tells_its_life(manager: tuple[socket.socket, str]) -> None:
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
def test_each_v_shows_a_level_more_in_the_form_that_was_chosen(
    verbosity: int, level: str, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    start_log(verbosity, as_json=as_json)
    assert logging.getLevelName(root.level) == level
    form = JsonLogFormatter if as_json else LogFormatter
    assert [type(handler.formatter) for handler in root.handlers] == [form]


def test_a_record_is_one_document_without_tokens() -> None:
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


# ------------------------------------------------------------------------------------------ the look at the certificate

TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)


async def look_once(home: Path, sources: list[Callable[[], Shown]]) -> tuple[Credentials, float]:
    """Look until the first end is told, and return it; each source is asked once, and the last one ever after."""
    told: asyncio.Queue[float] = asyncio.Queue()

    def certificate() -> Shown:
        return (sources.pop(0) if len(sources) > 1 else sources[0])()

    found = CredentialSources(tokens=lambda: TOKENS, certificate=certificate)
    credentials = Credentials(home, found, LogFormatter())
    credentials.serve_at("h", 1)
    looking = asyncio.ensure_future(credentials.check_each_day(told.put_nowait, lambda _: None))
    try:
        return credentials, await told.get()
    finally:
        # What follows the end in the same step, such as the warning, has been done by then.
        await asyncio.sleep(0)
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


async def test_files_that_were_renewed_are_taken_and_what_went_bad_changes_nothing(
    tmp_path: Path, made_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    options = authority.issue("own", "h", days=12.5)
    before = load_given(Path(options[1]), Path(options[3]))

    def broken() -> Shown:
        raise BadSecretFile("--key x is gone", "put it back")

    with caplog.at_level(logging.WARNING):
        credentials, _ = await look_once(made_home, [lambda: before, broken])
    assert credentials.shown is before
    # Its end is near, too.
    assert len(caplog.records) == 2
    assert str(BadSecretFile("--key x is gone", "put it back")) in caplog.text
    caplog.clear()
    authority.issue("own", "h", days=400)
    credentials, ends = await look_once(
        made_home, [lambda: before, lambda: load_given(Path(options[1]), Path(options[3]))]
    )
    assert credentials.shown is not None
    assert credentials.endpoint.fingerprint == credentials.shown.fingerprint != before.fingerprint
    assert ends > 0
    assert caplog.records == []


async def test_an_unexpected_error_in_reading_the_tokens_is_answered(made_home: Path) -> None:
    loads: list[Callable[[], Tokens]] = [lambda: load_tokens(made_home)]

    def load() -> Tokens:
        if not loads:
            raise RuntimeError("can't start new thread")
        return loads.pop()()

    sources = CredentialSources(tokens=load, certificate=lambda: load_own(made_home))
    credentials = Credentials(made_home, sources, LogFormatter())
    credentials.serve_at("127.0.0.1", 1)
    found: asyncio.Future[Tokens | DbgError] = asyncio.get_running_loop().create_future()
    credentials.read_again(found.set_result)
    assert isinstance(await asyncio.wait_for(found, 10), DbgError)
