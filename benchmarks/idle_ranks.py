"""Light ranks in one process that run, and answer probes with a stack of twelve frames, as real ranks do.

``python -m benchmarks.idle_ranks URL TOKEN COUNT FIRST`` prints a line once all are registered, and stays until it is
killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Probe, ProbeReply, Sender
from dbg_wire.records.ranks import Place
from tests.support.crowd import AT_ONCE, options, print_line
from tests.unit.broker.peers import RUNNING, registration, trusting_context

STACK = tuple(
    Place(
        file=f"/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module_{i}.py", line=1500 + i, function="_call"
    )
    for i in range(12)
)
PAUSE_SECONDS = 0.5
"""Seconds before an idle rank that was turned back comes again."""

PULSE = encode(ProbeReply(where=STACK[-1], frames=STACK))


async def be_ranks(url: str, token: str, count: int, first: int) -> None:
    """Register ranks, say so, and answer probes until this process is killed."""
    places = asyncio.Semaphore(AT_ONCE)
    secure: dict[str, Any] = {"ssl": trusting_context()} if url.startswith("wss") else {}

    async def answer(connection: ClientConnection) -> None:
        async for frame in connection:
            if isinstance(decode(frame, Sender.BROKER), Probe):
                await connection.send(PULSE)

    async def connected() -> ClientConnection:
        while True:
            # A broker on a busy machine may turn one back, which then comes again, as ranks do.
            with contextlib.suppress(ConnectionError):
                return await connect(f"{url}/agent", **options(token), **secure)
            await asyncio.sleep(PAUSE_SECONDS)

    async def come(number: int) -> asyncio.Task[None]:
        async with places:
            connection = await connected()
            key, host = f"idle/crowd/{number}", f"idle{number // 8}"
            said = registration(number, job="idle", world_size=first + count, report=RUNNING, key=key, host=host)
            await connection.send(encode(said))
            # The plain server, beside which the broker is measured, answers nothing but this.
            await (await connection.ping())
        return asyncio.create_task(answer(connection))

    answering = await asyncio.gather(*map(come, range(first, first + count)))
    print_line("there")
    await asyncio.gather(*answering)


if __name__ == "__main__":
    asyncio.run(be_ranks(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
