"""The memory that connections take of a broker."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from tests.support.serving import Serve, run
from tests.unit.broker.peers import trusting_context


def resident(pid: int) -> int:
    """Return the KiB of memory that a process holds."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError("no Rss")


def test_connection_through_tls_costs_little_memory(home: Path, serve: Serve) -> None:
    """Stock asyncio takes 290 KiB for each connection; a job of ten thousand ranks would not fit a login node."""
    serving = serve()
    context = trusting_context()
    count = 200
    with ExitStack() as stack:
        before = 0
        for number in range(count + 20):
            if number == 20:
                before = resident(serving.pid)
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", serving.port)))
            secured = stack.enter_context(context.wrap_socket(plain))
            secured.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert run(home, "status").returncode == 0
        assert (resident(serving.pid) - before) / count < 64
