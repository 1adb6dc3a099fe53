"""A crowd of light ranks in one process that stop and go on all the time, and answer what an IDE asks.

``python -m tests.support.stopping_crowd URL TOKEN COUNT SECONDS`` prints a line once all are registered. Each rank
stops for SECONDS, runs for a tenth of that, and so on, out of step with the others, until the process is killed.
"""

from __future__ import annotations

import asyncio
import sys

from websockets.asyncio.client import ClientConnection, connect

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Answer, Ask, Kind, Report, Sender, Welcome
from dbg_wire.records.ranks import Place
from dbg_wire.version import PROTOCOL_MINOR
from tests.support.crowd import options, say
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, registration, trusting_context

FRAMES = tuple(Place(file=f"/home/me/part{depth}.py", line=depth + 1, function=f"call_{depth}") for depth in range(25))


async def stop_and_go(connection: ClientConnection, rank: int, count: int, seconds: float) -> None:
    """Stop and go on until cancelled."""
    await asyncio.sleep(seconds * rank / count)
    number = 0
    while True:
        number += 1
        stop = STOP.replace(number=number, where=FRAMES[-1].replace(line=number))
        await connection.send(encode(Report(report=STOPPED.replace(stop=stop, session=None))))
        await asyncio.sleep(seconds)
        await connection.send(encode(Report(report=RUNNING)))
        await asyncio.sleep(seconds / 10)


async def answer(connection: ClientConnection) -> None:
    """Answer questions until the connection ends."""
    async for frame in connection:
        message = decode(frame, Sender.BROKER)
        if isinstance(message, Ask):
            told = Answer(request=message.request, kind=Kind.VALUE, text="stopped", frames=FRAMES)
            await connection.send(encode(told))


async def run(url: str, token: str, count: int, seconds: float) -> None:
    """Register the crowd, and let it stop and go until the process is killed."""
    context = trusting_context() if url.startswith("wss:") else None

    async def come(rank: int) -> ClientConnection:
        connection = await connect(f"{url}/agent", ssl=context, **options(token))
        changes = {"key": f"4711.0/crowd/{rank}", "host": f"gpu{rank // 8:03}", "pid": 10_000 + rank}
        said = registration(rank, minor=PROTOCOL_MINOR, world_size=count, report=RUNNING, **changes)
        await connection.send(encode(said))
        while not isinstance(decode(await connection.recv(), Sender.BROKER), Welcome):
            pass
        return connection

    connections = await asyncio.gather(*map(come, range(count)))
    say("all are registered")
    moving = (stop_and_go(one, rank, count, seconds) for rank, one in enumerate(connections))
    await asyncio.gather(*map(answer, connections), *moving)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
