"""The memory that connections take of a broker."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from websockets.sync.client import connect
from websockets.typing import Subprotocol

from dbg_wire.codec import encode
from tests.support.serving import Serve, run
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import registration, trusting_context


def resident(pid: int) -> int:
    """Return the KiB of memory that a process holds."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError("no Rss")


def test_a_rank_costs_little_memory(home: Path, serve: Serve) -> None:
    """Stock asyncio takes 290 KiB for each connection; a job of ten thousand ranks would not fit a login node."""
    serving = serve()
    headers = {"Authorization": f"Bearer {written_tokens(home)['rank']}"}
    count = 200
    with ExitStack() as stack:
        before = 0
        for number in range(count + 20):
            if number == 20:
                before = resident(serving.pid)
            rank = stack.enter_context(
                connect(
                    f"wss://127.0.0.1:{serving.port}/agent",
                    ssl=trusting_context(),
                    additional_headers=headers,
                    subprotocols=[Subprotocol("dbg.v1")],
                    compression=None,
                )
            )
            rank.send(encode(registration(number)))
            rank.recv()
        assert run(home, "status").returncode == 0
        assert (resident(serving.pid) - before) / count < 45
