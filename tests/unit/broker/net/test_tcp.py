"""Socket options of connections, and the written form of their peers' addresses."""

from __future__ import annotations

import contextlib
import socket

import pytest

from dbg_broker.net.tcp import TERMINAL_SEND_BUFFER, keep_little, listen, peer_name, prepare, unaccepted
from dbg_dial.tcp import ask_peer
from dbg_wire import limits


def option(connected: socket.socket, level: int, name: int) -> int:
    return connected.getsockopt(level, name)


def test_an_accepted_connection_has_the_options_of_its_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as asked:
        prepare(listener)
        ask_peer(asked)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert option(accepted, socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            for level, name in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
                (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            ):
                assert option(accepted, level, name) == option(asked, level, name) > 0


def test_little_is_buffered_for_terminals() -> None:
    with socket.socket() as connected:
        keep_little(connected)
        # Linux doubles the size that it is asked for, to have room for its own bookkeeping.
        assert option(connected, socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * TERMINAL_SEND_BUFFER


@pytest.mark.parametrize(
    ("address", "name"),
    [(("10.0.0.1", 5), "10.0.0.1:5"), (("::1", 5, 0, 0), "[::1]:5"), ("", "?"), (None, "?")],
)
def test_addresses_are_written_as_people_do(address: object, name: str) -> None:
    assert peer_name(address) == name


def test_a_connection_that_comes_before_the_broker_accepts_has_them_too() -> None:
    """A broker that joins others takes a while from its listening to its first accept, and ranks dial at once."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == limits.KEEPALIVE_SECONDS


def test_the_connections_that_wait_to_be_accepted_are_counted() -> None:
    with listen("127.0.0.1", 0) as listener, contextlib.ExitStack() as connected:
        for number in range(3):
            assert unaccepted(listener) == number
            connected.enter_context(socket.create_connection(listener.getsockname()))
        listener.accept()[0].close()
        assert unaccepted(listener) == 2
