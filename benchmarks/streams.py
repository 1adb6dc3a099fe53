"""Stopped ranks in one process that draw all the time, and terminals that read what they draw.

``python -m benchmarks.streams URL RANK_TOKEN DRIVER_TOKEN COUNT`` prints a line once all are attached; then each rank
draws a kilobyte fifty times a second, out of step with the others, until the process is killed.
"""

from __future__ import annotations

import selectors
import sys
import time

from benchmarks.ends import CHUNK, PULSE, Terminal, is_probe, rank_end
from dbg_wire.codec import Output, encode_data
from tests.support.crowd import print_line
from tests.unit.broker.peers import registration

EACH_SECOND = 50
DRAWING = b"\x1b[12;40H\x1b[0;97;46mloss: 0.25  " * 36
FIRST = 100
"""Number of the first rank, above those of the row."""


def run(url: str, rank_token: str, driver_token: str, count: int) -> None:
    """Draw and read until killed."""
    numbers = range(FIRST, FIRST + count)
    ranks = [rank_end(url, rank_token, number) for number in numbers]
    reading = selectors.DefaultSelector()
    for number in numbers:
        reading.register(
            Terminal(url, driver_token, registration(number).identity.key).end.connection, selectors.EVENT_READ
        )
    asked = selectors.DefaultSelector()
    for rank in ranks:
        asked.register(rank.connection, selectors.EVENT_READ, rank)
    drawn = [0] * count
    print_line("draw")
    began, turn = time.monotonic(), 0
    while True:
        at = turn % count
        ranks[at].send(encode_data(Output(1, drawn[at], DRAWING)))
        drawn[at] += len(DRAWING)
        turn += 1
        due = began + turn / (count * EACH_SECOND)
        for key, _ in reading.select(max(0.0, due - time.monotonic())):
            key.fileobj.recv(CHUNK)  # type: ignore[union-attr]  # all are sockets
        if not turn % count:
            for key, _ in asked.select(0):
                said = key.data.receive()
                if isinstance(said, str) and is_probe(said):
                    key.data.send(PULSE)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
