"""Attacks of those who have no token, each a function for ``attacker.py``; all go on until they are killed."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from tests.full.attacks.attacker import Begun
from tests.full.attacks.target import Target
from tests.unit.broker.peers import trusting_context

THREADS = 4
"""Connections that one attacker works on at the same time."""

WRONG_TOKEN = "a-token-of-nobody-that-is-as-long-as-any-token"  # noqa: S105 - nobody's

Keep = deque[socket.socket]


def again_and_again(step: Callable[[], None], begun: Begun, *, before: int = 20) -> NoReturn:
    """Do something in several threads without end; the attack has begun when it was tried ``before`` times."""
    tries = 0

    def work() -> None:
        nonlocal tries
        while True:
            # A broker that refuses, resets or closes is no reason to stop.
            with contextlib.suppress(OSError, ValueError):
                step()
            tries += 1
            if tries >= before:
                begun()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    while True:
        threads[0].join()


def keep(kept: Keep, connection: socket.socket, most: int) -> None:
    """Keep a connection open; of more than ``most`` the oldest is closed."""
    kept.append(connection)
    if len(kept) > most:
        with contextlib.suppress(IndexError):
            kept.popleft().close()


def connects(target: Target, begun: Begun, *, held: int = 500) -> None:
    """Connect without a word, and keep the newest connections."""
    kept: Keep = deque()
    again_and_again(lambda: keep(kept, target.plain(), held), begun, before=held)


def client_hello() -> bytes:
    """Return the first bytes of a TLS client; it costs nothing to send them again."""
    outgoing = ssl.MemoryBIO()
    client = trusting_context().wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def half_handshakes(target: Target, begun: Begun, *, held: int = 500) -> None:
    """Begin a TLS handshake, which costs the broker nearly all of one, and nothing more."""
    hello, kept = client_hello(), Keep()

    def step() -> None:
        connection = target.plain()
        connection.sendall(hello)
        keep(kept, connection, held)

    again_and_again(step, begun)


def hellos_at_once(target: Target, begun: Begun, *, held: int = 300) -> None:
    """Prepare many handshakes, of which only one byte is missing, and send these bytes in one moment."""
    hello = client_hello()
    while True:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            waiting = [stack.enter_context(target.plain()) for _ in range(held)]
            for connection in waiting:
                connection.sendall(hello[:-1])
            begun()
            for connection in waiting:
                connection.sendall(hello[-1:])
            for connection in waiting:
                connection.recv(1)


def slow_heads(target: Target, begun: Begun, *, held: int = 100) -> None:
    """Send a request's head byte by byte, on many connections."""
    head = b"GET /agent HTTP/1.1\r\nX: " + b"x" * 10_000
    lines = [target.secured() for _ in range(held)]
    begun()
    for at in range(len(head)):
        for number, connection in enumerate(lines):
            try:
                connection.sendall(head[at : at + 1])
            except OSError:
                with contextlib.suppress(OSError):
                    lines[number] = target.secured()


def wrong_tokens(target: Target, begun: Begun) -> None:
    """Ask for a WebSocket with a token of nobody."""
    again_and_again(lambda: discard(target.ask("/client", WRONG_TOKEN)), begun)


def pages(target: Target, begun: Begun, *, page: str, role: str = "") -> None:
    """Ask for a page, with the token of a role if there is one."""
    token = target.tokens.get(role)
    again_and_again(lambda: discard(target.ask(page, token)), begun)


def garbage(target: Target, begun: Begun) -> None:
    """Send random bytes, to TLS and inside of it."""

    def step() -> None:
        with target.plain() as connection:
            connection.sendall(os.urandom(5000))
        with target.secured() as connection:
            connection.sendall(os.urandom(5000))

    again_and_again(step, begun)


def discard(answer: bytes) -> None:
    """Do nothing with an answer."""
