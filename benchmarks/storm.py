"""Ranks that all come at once: how many handshakes a second, beside the plainest server of websockets.

``python -m benchmarks.storm URL TOKEN COUNT`` dials so many times, some at the same time, and prints the seconds.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import ssl
import sys
import time
from functools import partial
from urllib.parse import urlsplit

from benchmarks.bench import PATIENCE, Bench, Row, interleaved, last_document, processor_seconds
from benchmarks.crowds import plain_relay
from benchmarks.ends import CHUNK, request
from benchmarks.figures import Figure
from tests.support.crowd import AT_ONCE, print_line
from tests.unit.broker.peers import trusting_context

COUNT, ROUNDS = 1000, 5


class Dialling:
    """One handshake that goes on while others do."""

    def __init__(self, url: str, token: str, context: ssl.SSLContext | None) -> None:
        where = urlsplit(url)
        self.socket: socket.socket = socket.create_connection((where.hostname or "", where.port or 0))
        self.socket.setblocking(False)
        self._secures = context is not None
        if context is not None:
            self.socket = context.wrap_socket(self.socket, do_handshake_on_connect=False)
        self._asks = request(url, "/agent", token)
        self._came = b""

    def advance(self) -> int:
        """Go on as far as possible; return the event to wait for, 0 if the handshake is done."""
        try:
            if self._secures and isinstance(self.socket, ssl.SSLSocket):
                self.socket.do_handshake()
                self._secures = False
            if self._asks:
                self._asks = self._asks[self.socket.send(self._asks) :]
            self._came += self.socket.recv(CHUNK)
        except (ssl.SSLWantReadError, BlockingIOError):
            return selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            return selectors.EVENT_WRITE
        if b" 101 " not in self._came[:40]:
            raise ConnectionError(f"no WebSocket but {self._came!r}")
        return 0 if b"\r\n\r\n" in self._came else selectors.EVENT_READ


def dial_all(url: str, token: str, count: int) -> float:
    """Shake hands so many times, AT_ONCE at the same time at most, and hang up; return the seconds.

    The broker takes a peer that says nothing after its handshake for an attacker once hundreds of one address do so.
    """
    context = trusting_context() if url.startswith("wss") else None
    done = 0
    waiting, begun = selectors.DefaultSelector(), 0
    began = time.monotonic()
    while done < count:
        while begun < count and begun - done < AT_ONCE:
            one = Dialling(url, token, context)
            begun += 1
            done += _goes_on(one, waiting)
        for key, _ in waiting.select(0 if done == begun else None):
            done += _goes_on(key.data, waiting)
    return time.monotonic() - began


def _goes_on(one: Dialling, waiting: selectors.BaseSelector) -> bool:
    """Go on with a handshake, and hang up and return True once it is done; it may be so at once."""
    event = one.advance()
    is_known = one.socket in waiting.get_map()
    if event:
        (waiting.modify if is_known else waiting.register)(one.socket, event, one)
        return False
    if is_known:
        waiting.unregister(one.socket)
    one.socket.close()
    return True


def storm(bench: Bench) -> list[Figure]:
    """Measure handshakes a second, and of a server's time."""
    relay, url = plain_relay(bench)
    broker = bench.broker()
    servers = {"websockets server": (relay.pid, url, "none")}
    servers["broker"] = (broker.process.pid, broker.url, broker.tokens["rank"])

    def measure(pid: int, url: str, token: str) -> tuple[float, float]:
        before = processor_seconds(pid)
        dialling = bench.module("benchmarks.storm", url, token, COUNT)
        if dialling.wait(PATIENCE):
            raise AssertionError(dialling.tail())
        seconds = last_document(dialling)["seconds"]
        return COUNT / seconds, COUNT / (processor_seconds(pid) - before)

    found = interleaved(ROUNDS, {name: partial(measure, *at) for name, at in servers.items()})
    figures = []
    for kind, word in enumerate(("a second", "a second of its time")):
        for name, rounds in found.items():
            against = None if name == "websockets server" else f"websockets server, TLS, {word}"
            values = tuple(round_[kind] for round_ in rounds)
            figures.append(Figure(f"{name}, TLS, {word}", "handshakes", values, against))
    return figures


ROWS = (Row("storm", f"{COUNT:,} ranks of one address dial, {AT_ONCE} at the same time", storm),)

if __name__ == "__main__":
    print_line(json.dumps({"seconds": dial_all(sys.argv[1], sys.argv[2], int(sys.argv[3]))}))
    # An orderly exit would close a thousand connections one by one.
    os._exit(0)
