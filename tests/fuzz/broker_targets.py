"""What the broker reads of strangers, of stock debuggers, and of its own files that a crash or a user has changed."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from websockets.frames import Frame, Opcode

from dbg_broker.classic.session import StockSession
from dbg_broker.cli.log import shown
from dbg_broker.home.tokens import (
    ISSUED_FILE,
    Bearer,
    IssuedToken,
    IssuedTokens,
    RevokedToken,
    Role,
    load_issued,
    load_tokens,
    save_issued,
)
from dbg_broker.journal.audit import encode_entry
from dbg_broker.net.handshake_slots import Capacity
from dbg_broker.net.http import Connected, HttpAnswer, Upgrade, admit
from dbg_broker.net.outbox import Turns
from dbg_broker.net.peer import Peer, logger
from dbg_broker.timers import Timers
from dbg_command.audit import AuditEntry, AuditEvent, decode_entry
from dbg_wire.errors import BadSecretFile
from dbg_wire.messages import Viewers
from tests.fuzz.target import Target, pieces_of, whole

LOOP = asyncio.new_event_loop()
"""Where connections look for the time; it never runs."""

HOME = tempfile.TemporaryDirectory(prefix="dbg-fuzz-")
TOKENS = load_tokens(Path(HOME.name))
REQUEST = (
    "GET /agent HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: dbg.v1\r\nAuthorization: Bearer {TOKENS.of(Role.RANK)}\r\n\r\n"
).encode()
NO_TOKEN = REQUEST.replace(TOKENS.of(Role.RANK).encode(), b"x" * 43)


class FakeTransport(asyncio.Transport):
    """A transport whose bytes go nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Drop bytes."""

    def is_closing(self) -> bool:
        return self.is_over

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take all bytes."""

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_over = True

    abort = close

    def pause_reading(self) -> None:
        """Read on."""

    resume_reading = pause_reading


class Owner:
    """Server and owner of one connection, that admits as the broker does."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.timers = Timers(LOOP.time, self._schedule)
        self.turns = Turns(self.timers)
        self.opened_as: Bearer | None = None

    def _schedule(self, seconds: float, call: Callable[[], None]) -> None:
        if not seconds:
            self.later.append(call)

    def admit(self, peer: Peer, upgrade: Upgrade) -> Bearer | HttpAnswer:
        return admit(upgrade, TOKENS, Connected(ranks=0, drivers=0, watchers=0), CAPACITY, 0.0)

    def opened(self, peer: Peer, bearer: Bearer) -> Owner:
        """Take note of whose connection it is."""
        self.opened_as = bearer
        return self

    def nothing(self, *_: object) -> None:
        """Do nothing."""

    settled = failed = ended = received_text = received_data = received_control = nothing
    drained = overflowed = lost = nothing


CAPACITY = Capacity()


class Raised(logging.Handler):
    """Take the errors that a connection logs as the broker's own, since it raises none."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raise the error of a log's line."""
        if record.exc_info is not None and record.exc_info[1] is not None:
            raise record.exc_info[1]


def converse(owner: Owner, start: bytes, data: bytes) -> None:
    """Give a connection bytes, in reads of any size, and end it; raise an error of the broker."""
    raised = Raised(logging.ERROR)
    logger.addHandler(raised)
    try:
        _converse(owner, start, data)
    finally:
        logger.removeHandler(raised)


def _converse(owner: Owner, start: bytes, data: bytes) -> None:
    connection = Peer(1, "10.0.0.1", owner)
    transport = FakeTransport()
    connection.connection_made(transport)
    for read in (start, *pieces_of(data)):
        if read and not transport.is_over:
            connection.data_received(read)
            while owner.later:
                owner.later.pop()()
    connection.connection_lost(None)


def handshake(data: bytes) -> None:
    """Take bytes as a request: nobody comes in who doesn't know a token."""
    owner = Owner()
    converse(owner, b"", data)
    assert owner.opened_as is None or TOKENS.of(Role.RANK).encode() in b"".join(pieces_of(data))


def websocket(data: bytes) -> None:
    """Take bytes as a rank's frames, behind a request with its token."""
    owner = Owner()
    converse(owner, REQUEST, data)
    assert owner.opened_as is not None


def stock(data: bytes) -> None:
    """Take bytes as those of a stock debugger, with a terminal that looks."""
    caller = StockSession(0.0)
    caller.message(Viewers(viewers=1, generation=1, rows=24, columns=80, colors=256))
    now, came, told = 0.0, 0, 0
    for read in pieces_of(data):
        now += 0.01
        came += len(read)
        told += len(caller.received(read, now))
        caller.report(now)
    caller.tick(now + 60)
    caller.registration("key", "host", 1, now)
    assert told <= 8 * (came + 1)


def audit(data: bytes) -> None:
    """Show a line of the audit log, and write again what was read."""
    for line in data.split(b"\n"):
        entry = decode_entry(line)
        if entry is not None:
            assert shown(entry).isprintable()
            assert len(shown(entry)) < 20_000
            again = decode_entry(encode_entry(entry))
            assert again is None or again.what is entry.what


def issued(data: bytes) -> None:
    """Read the list of tokens that were made for somebody."""
    home = Path(HOME.name)
    (home / ISSUED_FILE).write_bytes(data)
    (home / ISSUED_FILE).chmod(0o600)
    with suppress(BadSecretFile):
        found = load_issued(home)
        for one in found.tokens:
            assert one.bearer.shown.isprintable()
        assert found.joined(IssuedTokens()).joined(found) == IssuedTokens().joined(found)


def an_issued_list() -> bytes:
    """Return a list of tokens as the broker writes it."""
    home = Path(HOME.name)
    alice = IssuedToken(name="alice", role=Role.WATCHER, digest="0" * 64, made=0.0, job="A", expires=1.0)
    save_issued(home, IssuedTokens((alice,), (RevokedToken(digest="1" * 64, since=0.0),)))
    return (home / ISSUED_FILE).read_bytes()


def masked(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    """Return a frame as ranks and terminals send it."""
    return Frame(opcode, payload, fin).serialize(mask=True)


ENTRY = encode_entry(
    AuditEntry(at=1.7e9, what=AuditEvent.ATTACH, role="driver", terminal="me@h", job="A", ranks="g0:1", count=2)
)
TARGETS = (
    Target(
        "handshake",
        handshake,
        whole(REQUEST, NO_TOKEN, b"HEAD /healthz HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"),
    ),
    Target(
        "websocket",
        websocket,
        whole(
            masked(Opcode.TEXT, b'{"type":"probe_reply"}'),
            masked(Opcode.BINARY, b"ab", fin=False) + masked(Opcode.PING, b"x") + masked(Opcode.CONT, b"c"),
            masked(Opcode.CLOSE, b"\x03\xe8bye"),
        ),
    ),
    Target(
        "classic_pudb",
        stock,
        whole(b"\x1b[?1049h\x1b[?25l\x1b[1;1H\x1b[0;39;49mPuDB\x1b[K\x1b[?1049lprinted\r\n"),
    ),
    Target("audit", audit, (ENTRY,)),
    Target("issued", issued, (an_issued_list(),)),
)
