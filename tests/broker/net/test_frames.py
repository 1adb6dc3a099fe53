"""Bytes that wait for their turn, without TLS; with it they are in test_tls and test_connection."""

from __future__ import annotations

from dbg_broker.net.frames import PIECE_BYTES, UNREAD_BYTES, IncomingBytes


def test_bytes_come_back_in_pieces_and_in_order() -> None:
    incoming = IncomingBytes(None)
    said = bytes(range(256)) * (PIECE_BYTES // 128)
    incoming.add(said[:1000])
    incoming.add(said[1000:])
    pieces = []
    while incoming:
        pieces.append(incoming.piece())
    assert b"".join(pieces) == said
    assert max(map(len, pieces)) == PIECE_BYTES


def test_enough_is_enough_until_some_is_read_or_all_forgotten() -> None:
    incoming = IncomingBytes(None)
    incoming.add(bytes(UNREAD_BYTES - 1))
    assert not incoming.is_full
    incoming.add(b"x")
    assert incoming.is_full
    incoming.piece()
    assert not incoming.is_full
    incoming.clear()
    assert not incoming
