"""Output in bulk, from a rank to a terminal, through the broker and other relays; and a terminal that doesn't read."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from benchmarks.bench import Bench, Row, interleaved, memory_kib
from benchmarks.crowds import plain_relay
from benchmarks.ends import CHUNK, Terminal, WebSocketEnd, expected
from benchmarks.figures import Figure
from dbg_wire.codec import Output, encode, encode_data
from dbg_wire.limits import KIB, MAX_DATA_BYTES, MIB
from dbg_wire.messages import SessionInfo, Welcome
from tests.support.broker import RunningBroker
from tests.unit.broker.peers import STOPPED, registration

AMOUNT, ROUNDS = 32 * MIB, 5

WINDOW = 8
"""Frames of 64 KiB that may be under way; beyond a mebibyte the broker drops what a terminal has not read."""

FRAME = b"x" * MAX_DATA_BYTES
FRAMES = AMOUNT // MAX_DATA_BYTES

SESSION = SessionInfo(number=1, engine="pdb", rows=24, columns=80)
"""A session whose output is a log, of which nothing may be left out."""


class Pipe(Protocol):
    """Both ends of a way for output."""

    def send(self) -> None:
        """Send FRAME at the rank's end."""

    def take(self) -> int:
        """Return how many bytes of payload came at the terminal's end, at least one."""


class TcpPipe:
    """A connection to a listener, with or without a relay between."""

    def __init__(self, connect: Callable[[int], socket.socket]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._rank = connect(listener.getsockname()[1])
            self._terminal, _ = listener.accept()

    def send(self) -> None:
        """Send FRAME."""
        self._rank.sendall(FRAME)

    def take(self) -> int:
        """Return how many bytes came."""
        return len(self._terminal.recv(CHUNK))


class RelayPipe:
    """Two ends at the plain relay."""

    def __init__(self, url: str) -> None:
        self._rank, self._terminal = (WebSocketEnd.dial(url, f"/{side}/2") for side in ("agent", "client"))

    def send(self) -> None:
        """Send FRAME."""
        self._rank.send(FRAME)

    def take(self) -> int:
        """Return how many bytes came."""
        return len(self._terminal.receive())


class BrokerPipe:
    """A stopped rank and a terminal at a broker."""

    def __init__(self, broker: RunningBroker) -> None:
        tokens = broker.tokens
        self._rank = WebSocketEnd.dial(broker.url, "/agent", tokens["rank"])
        said = registration(0, report=STOPPED.replace(session=SESSION))
        self._rank.send(encode(said))
        expected(self._rank, Welcome)
        self._terminal = Terminal(broker.url, tokens["driver"], said.identity.key).end
        self._drawn = 0

    def send(self) -> None:
        """Send FRAME."""
        self._rank.send(encode_data(Output(1, self._drawn, FRAME)))
        self._drawn += len(FRAME)

    def take(self) -> int:
        """Return how many bytes came."""
        while isinstance(said := self._terminal.receive(), str):
            pass
        return len(said) - len(encode_data(Output(1, 0, b"")))


class Flow:
    """A pipe whose rank's end sends from a process of its own, at most WINDOW frames ahead of what has come."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        window, self._grant = os.pipe()
        if not os.fork():
            os.close(self._grant)
            try:
                while os.read(window, 1):
                    pipe.send()
            finally:
                # Nothing of the parent's is cleaned up here.
                os._exit(0)
        os.close(window)

    def mebibytes_a_second(self) -> float:
        """Send AMOUNT, and return how fast it came."""
        came = granted = 0
        began = time.monotonic()
        while came < AMOUNT:
            due = min(FRAMES, came // MAX_DATA_BYTES + WINDOW)
            os.write(self._grant, bytes(due - granted))
            granted = due
            came += self._pipe.take()
        return AMOUNT / MIB / (time.monotonic() - began)

    def close(self) -> None:
        """End the other process."""
        os.close(self._grant)
        os.wait()


def through_socat(bench: Bench) -> Callable[[int], socket.socket]:
    """Return what connects to a port by way of socat."""

    def connect(port: int) -> socket.socket:
        command = ["socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1", f"TCP:127.0.0.1:{port}"]
        socat = bench.processes.start("socat", command)
        at = int(socat.wait_for_output(r"listening on .*:(\d+)", stream="stderr")[1])
        return socket.create_connection(("127.0.0.1", at))

    return connect


def measured(pipes: Mapping[str, Pipe]) -> dict[str, list[float]]:
    """Measure each pipe in turn."""
    flows = {name: Flow(pipe) for name, pipe in pipes.items()}
    try:
        return interleaved(ROUNDS, {name: flow.mebibytes_a_second for name, flow in flows.items()})
    finally:
        # Those that were made later hold a copy of what ends the earlier ones.
        for flow in reversed(flows.values()):
            flow.close()


def bulk(bench: Bench) -> list[Figure]:
    """Measure how fast output comes."""
    pipes: dict[str, Pipe] = {
        "direct TCP": TcpPipe(lambda port: socket.create_connection(("127.0.0.1", port))),
        "socat": TcpPipe(through_socat(bench)),
    }
    pipes["websockets relay, TLS"] = RelayPipe(plain_relay(bench)[1])
    pipes["broker, TLS"] = BrokerPipe(bench.broker())
    found = measured(pipes)
    return [Figure(name, "MiB/s", tuple(values), against(name)) for name, values in found.items()]


def against(name: str) -> str | None:
    """Return what a way is compared with: the broker with the plain relay, all others with no relay."""
    if name == "direct TCP":
        return None
    return name.replace("broker", "websockets relay") if name.startswith("broker") else "direct TCP"


def slow_viewer(bench: Bench) -> list[Figure]:
    """Measure how fast output comes beside a terminal that reads nothing, and what that one costs the broker."""
    brokers = {"nobody else": bench.broker(), "beside a terminal that reads nothing": bench.broker()}
    pipes: dict[str, Pipe] = {name: BrokerPipe(broker) for name, broker in brokers.items()}
    slow = brokers["beside a terminal that reads nothing"]
    stuck = Terminal(slow.url, slow.tokens["driver"], registration(0).identity.key)
    before = [memory_kib(broker.process.pid) for broker in brokers.values()]
    found = measured(pipes)
    after = [memory_kib(broker.process.pid) for broker in brokers.values()]
    stuck.end.connection.close()
    figures = [Figure("nobody else", "MiB/s", tuple(found["nobody else"]))]
    beside = found["beside a terminal that reads nothing"]
    figures.append(Figure("beside a terminal that reads nothing", "MiB/s", tuple(beside), "nobody else"))
    for name, grown in zip(brokers, (now - then for now, then in zip(after, before, strict=True)), strict=True):
        figures.append(Figure(f"the broker grows, {name}", "KiB", (float(grown),)))
    return figures


ROWS = (
    Row("bulk", f"{AMOUNT // MIB} MiB in frames of {MAX_DATA_BYTES // KIB} KiB from a rank to a terminal", bulk),
    Row("slow-viewer", "the same, while another terminal of the rank reads nothing", slow_viewer),
)
