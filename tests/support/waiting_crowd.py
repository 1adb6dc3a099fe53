"""A crowd of light ranks in one process that wait in a collective for one of them, and answer what a look asks.

``python -m tests.support.waiting_crowd URL TOKEN COUNT MISSING`` prints a line once all are registered, and stays until
it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from websockets.asyncio.client import ClientConnection, connect

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Answer, Ask, Kind, Look, Sender, Welcome
from dbg_wire.records.evidence import (
    CodeSeen,
    CollectiveSeen,
    CollectiveState,
    EvidenceRecord,
    GroupSeen,
    ProcessSeen,
    SourceSeen,
    ThreadWait,
    WaitKind,
)
from dbg_wire.records.ranks import Place
from dbg_wire.version import PROTOCOL_MINOR
from tests.support.crowd import options, say
from tests.unit.broker.peers import RUNNING, registration, trusting_context

AT_ONCE = 64
"""Ranks that dial at the same time."""

SEQUENCE = 3172
WAITED = 252.0
PER_HOST = 8

TRAIN = Place(file="/home/me/train.py", line=71, function="<module>")
STEP = Place(file="/home/me/train.py", line=49, function="train_step")
REDUCE = Place(
    file="/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
    line=3252,
    function="all_reduce",
)
SHARD = Place(file="/home/me/data.py", line=17, function="wait_for_shard")


def groups(rank: int, world: int, completed: int, *, is_missing: bool) -> list[EvidenceRecord]:
    """Return a rank's groups: the whole world, and the ranks of its host."""
    first = rank - rank % PER_HOST
    last = min(first + PER_HOST, world) - 1
    everybody = GroupSeen(
        library="torch",
        name="0",
        title="dp",
        members=f"0-{world - 1}",
        size=world,
        backend="gloo",
        enqueued=completed if is_missing else completed + 1,
        started=completed,
        completed=completed,
    )
    host = GroupSeen(
        library="torch",
        name=f"host{first}",
        title="tp",
        members=f"{first}-{last}",
        size=last - first + 1,
        backend="gloo",
        enqueued=12,
        started=12,
        completed=12,
    )
    return [everybody, host]


def evidence(rank: int, world: int, *, is_missing: bool) -> tuple[EvidenceRecord, ...]:
    """Return the rows that a rank answers with."""
    last = SEQUENCE - 1
    calls: list[EvidenceRecord] = [
        CollectiveSeen(group="0", name="all_reduce", state=CollectiveState.COMPLETED, sequence=last, age=WAITED + 1)
    ]
    if not is_missing:
        waiting = CollectiveSeen(
            group="0",
            name="all_reduce",
            state=CollectiveState.ENQUEUED,
            sequence=SEQUENCE,
            shapes="[1000]",
            types="float32",
            size=4000,
            age=WAITED,
            timeout=1800.0,
        )
        calls.insert(0, waiting)
    kind = WaitKind.SOCKET if is_missing else WaitKind.COLLECTIVE
    text = "reads the socket 10.0.0.7:2049" if is_missing else "waits in all_reduce"
    records = [
        SourceSeen(library="torch", version="2.13.0"),
        *groups(rank, world, last, is_missing=is_missing),
        *calls,
        ThreadWait(thread="MainThread", kind=kind, text=text, is_main=True, frames=stack(is_missing=is_missing)),
        *(
            ThreadWait(thread=f"feed-{at}", kind=WaitKind.DATA, text="waits for a queue", frames=(TRAIN,))
            for at in range(3)
        ),
        ProcessSeen(state="S", system_call="recvfrom", cpu=100.0, main_cpu=90.0, input=1e9, output=1e6, memory=1 << 30),
        CodeSeen(files="f1", packages="p1", environment="e1"),
    ]
    return tuple(records)


def stack(*, is_missing: bool) -> tuple[Place, ...]:
    """Return the stack of a rank's main thread."""
    return (TRAIN, STEP, SHARD if is_missing else REDUCE)


async def answer(connection: ClientConnection, rows: Sequence[EvidenceRecord], frames: tuple[Place, ...]) -> None:
    """Answer questions until the connection ends."""
    async for frame in connection:
        message = decode(frame, Sender.BROKER)
        if isinstance(message, Ask):
            told = tuple(rows) if message.look is not Look.STACK else ()
            said = Answer(
                request=message.request, kind=Kind.VALUE, text="running", rows=told, frames=frames, age=WAITED
            )
            await connection.send(encode(said))


async def run(url: str, token: str, count: int, missing: int) -> None:
    """Register the crowd, and answer until the process is killed."""
    places, answering = asyncio.Semaphore(AT_ONCE), set()
    context = trusting_context() if url.startswith("wss:") else None

    async def come(rank: int) -> None:
        async with places:
            connection = await connect(f"{url}/agent", ssl=context, **options(token))
            changes = {"key": f"4711.0/crowd/{rank}", "host": f"gpu{rank // PER_HOST:03}", "pid": 10_000 + rank}
            said = registration(rank, minor=PROTOCOL_MINOR, world_size=count, report=RUNNING, **changes)
            await connection.send(encode(said))
            while not isinstance(decode(await connection.recv(), Sender.BROKER), Welcome):
                pass
        is_missing = rank == missing
        rows = evidence(rank, count, is_missing=is_missing)
        answering.add(asyncio.create_task(answer(connection, rows, stack(is_missing=is_missing))))

    await asyncio.gather(*map(come, range(count)))
    say("all are registered")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
