"""TLS between bytes: handshake, records in pieces, and both ends of a connection."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_broker.home.certificate import load_own
from dbg_broker.net.tls import SecureTransport
from tests.broker.peers import trusting_context

SIZE = 4096


class Raw(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.eof = self.closed = False

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        assert not self.eof
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


class Pair:
    """A server's transport and a client, joined by hand."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.raw = Raw()
        self.server = SecureTransport(context)
        self.server.run_on(self.raw)
        self.to_client, self.from_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = trusting_context().wrap_bio(self.to_client, self.from_client)

    def shake_hands(self) -> None:
        for _ in range(4):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.pump()
        self.pump()
        assert self.server.is_shaken

    def pump(self) -> bytes:
        """Carry bytes both ways, and return what the server reads."""
        read = b""
        if data := self.from_client.read():
            self.server.feed(data)
            while not self.server.is_dry:
                read += self.server.read(SIZE)
        self.to_client.write(bytes(self.raw.written))
        self.raw.written.clear()
        return read


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return load_own(tmp_path_factory.mktemp("home", numbered=True)).context


@pytest.fixture
def pair(context: ssl.SSLContext) -> Pair:
    joined = Pair(context)
    joined.shake_hands()
    return joined


def test_a_handshake_ends_with_what_the_peer_says(context: ssl.SSLContext) -> None:
    """The broker makes no ticket for a session that nobody resumes."""
    pair = Pair(context)
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.do_handshake()
    pair.pump()
    pair.client.do_handshake()
    pair.pump()
    assert pair.server.is_shaken
    assert not pair.to_client.pending


def test_what_is_said_arrives_in_pieces_that_are_asked_for(pair: Pair) -> None:
    said = bytes(range(256)) * 100
    pair.client.write(said)
    pair.server.feed(pair.from_client.read())
    pieces = []
    while not pair.server.is_dry:
        pieces.append(pair.server.read(SIZE))
    assert b"".join(pieces) == said
    assert max(map(len, pieces)) == SIZE


def test_what_is_written_arrives_whole(pair: Pair) -> None:
    written = bytes(range(256)) * 1024
    pair.server.write(written)
    pair.pump()
    read = b""
    while len(read) < len(written):
        read += pair.client.read(65536)
    assert read == written


def test_the_end_of_the_output_is_told_and_nothing_is_written_after_it(pair: Pair) -> None:
    pair.server.write(b"last")
    assert pair.server.can_write_eof()
    pair.server.write_eof()
    pair.server.write_eof()
    pair.server.write(b"too late")
    pair.pump()
    assert pair.client.read(100) == b"last"
    assert pair.client.read(100) == b""
    assert pair.raw.eof


def test_a_peer_that_ends_its_output_is_noticed(pair: Pair) -> None:
    pair.client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    assert pair.pump() == b"last"
    assert pair.server.has_ended


def test_nothing_is_written_before_the_handshake(context: ssl.SSLContext) -> None:
    joined = Pair(context)
    joined.server.write(b"in plain")
    assert not joined.raw.written
    assert not joined.server.can_write_eof()


@given(st.binary(min_size=1, max_size=200))
@settings(max_examples=50)
def test_what_is_no_tls_is_an_error_of_ssl_and_no_other(context: ssl.SSLContext, data: bytes) -> None:
    server = SecureTransport(context)
    server.run_on(Raw())
    server.feed(data)
    try:
        while not server.is_dry:
            assert server.read(SIZE) == b""
    except ssl.SSLError:
        assert server.is_dry


def test_the_home_and_the_version_of_a_context_allow_no_new_handshake_of_an_open_connection(tmp_path: Path) -> None:
    context = load_own(tmp_path).context
    assert context.options & ssl.OP_NO_RENEGOTIATION
