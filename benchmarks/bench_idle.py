"""Measure what idle ranks cost the broker: processor time of a real broker with 2,000 of them, plain and with TLS.

``bench_idle.py [SECONDS] [RANKS]``; the ranks are light ones in a second process, and answer probes with a stack of
twelve frames, as real ranks do.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from websockets.asyncio.client import ClientConnection, connect

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Probe, Pulse, Sender
from dbg_wire.ranks import Place
from tests.broker.peers import RUNNING, registration, trusting_context
from tests.support.broker import running_broker
from tests.support.crowd import AT_ONCE, options, say
from tests.support.processes import Processes

MODES = {"plain": ("--insecure",), "TLS": ()}
STACK = tuple(
    Place(
        file=f"/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module_{i}.py", line=1500 + i, function="_call"
    )
    for i in range(12)
)
PULSE = encode(Pulse(where=STACK[-1], frames=STACK))


async def be_ranks(url: str, token: str, count: int) -> None:
    """Register ranks, say so, and answer probes until this process is killed."""
    places = asyncio.Semaphore(AT_ONCE)
    secure: dict[str, Any] = {"ssl": trusting_context()} if url.startswith("wss") else {}

    async def answer(connection: ClientConnection) -> None:
        async for frame in connection:
            if isinstance(decode(frame, Sender.BROKER), Probe):
                await connection.send(PULSE)

    async def come(number: int) -> asyncio.Task[None]:
        async with places:
            connection = await connect(f"{url}/agent", **options(token), **secure)
            key = f"4711.0/crowd/{number}"
            said = registration(number, world_size=count, report=RUNNING, key=key, host=f"gpu{number // 8}")
            await connection.send(encode(said))
            await connection.recv()
        return asyncio.create_task(answer(connection))

    answering = await asyncio.gather(*map(come, range(count)))
    say("there")
    await asyncio.gather(*answering)


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(mode: str, seconds: float, count: int) -> None:
    """Print the share of a core that idle ranks take."""
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(Path(folder) / "logs")
        try:
            broker = running_broker(processes, Path(folder) / "home", *MODES[mode])
            crowd = [sys.executable, __file__, "ranks", broker.url, broker.tokens["rank"], str(count)]
            processes.start("crowd", crowd).wait_for_output("there")
            # The probes of ranks that came at once are still together.
            time.sleep(2)
            before, began = processor_seconds(broker.process.pid), time.monotonic()
            time.sleep(seconds)
            share = (processor_seconds(broker.process.pid) - before) / (time.monotonic() - began)
            print(f"{count} idle ranks, {mode}: {100 * share:.2f} % of a core over {seconds:g} s", flush=True)
        finally:
            processes.end_all()


if __name__ == "__main__":
    if sys.argv[1:2] == ["ranks"]:
        asyncio.run(be_ranks(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        for each in MODES:
            measure(each, float(sys.argv[1]) if sys.argv[1:] else 40.0, int(sys.argv[2]) if sys.argv[2:] else 2000)
