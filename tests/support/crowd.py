"""Light ranks in one process: ``python -m tests.support.crowd KIND URL TOKEN COUNT [NUMBER]``.

``hold`` has every NUMBER-th rank stop while the others are held for them, and prints counts and seconds as JSON. Ranks
of the other kinds stay until the process is killed, which prints a line once all are registered. With ``waiting`` they
wait in a collective for the rank NUMBER, and answer what a look asks. With ``stopping`` they stop for NUMBER seconds,
run for a tenth of that, and so on, out of step, and answer what an IDE asks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidMessage
from websockets.typing import Subprotocol

from dbg_agent.rank.holding import HoldCounts
from dbg_wire import PROTOCOL_MINOR, subprotocol
from dbg_wire.codec import decode, encode
from dbg_wire.messages import (
    Answer,
    AnswerBody,
    Arrival,
    Ask,
    Chosen,
    DetailLevel,
    Kind,
    RankReport,
    Report,
    Sender,
    Waiting,
    Welcome,
    body_of,
)
from dbg_wire.records.evidence import (
    Activity,
    ActivityInfo,
    CollectiveSeen,
    CollectiveState,
    EvidenceRecord,
    GroupSeen,
    ProcessSeen,
    SourceSeen,
    Target,
    ThreadWait,
)
from dbg_wire.records.ranks import Place, RankState
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, registration, trusting_context

SITE = "/home/me/train.py:41"
AT_ONCE = 64
"""Ranks that dial at the same time."""

PAUSE_SECONDS = 0.25
"""Seconds before a rank dials again."""

DIAL_SECONDS = 120.0
"""Seconds after which a rank gives up."""

PER_HOST = 8

SEQUENCE = 3172
WAITED = 252.0

TRAIN = Place(file="/home/me/train.py", line=71, function="<module>")
STEP = Place(file="/home/me/train.py", line=49, function="train_step")
REDUCE = Place(
    file="/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
    line=3252,
    function="all_reduce",
)
SHARD = Place(file="/home/me/data.py", line=17, function="wait_for_shard")
FRAMES = tuple(Place(file=f"/home/me/part{depth}.py", line=depth + 1, function=f"call_{depth}") for depth in range(25))


def print_line(line: str) -> None:
    """Write a line to stdout at once, for the test that reads it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def options(token: str) -> dict[str, Any]:
    return {
        "additional_headers": {"Authorization": f"Bearer {token}"},
        "subprotocols": [Subprotocol(subprotocol())],
        "compression": None,
        "ping_interval": None,
        "open_timeout": DIAL_SECONDS,
    }


class Crowd:
    """The ranks at one broker."""

    def __init__(self, url: str, token: str, count: int) -> None:
        self._url, self._token, self.count = url, token, count
        self._context = trusting_context() if url.startswith("wss:") else None
        self._places = asyncio.Semaphore(AT_ONCE)

    async def register(self, number: int) -> ClientConnection:
        """Connect and register a rank that runs."""
        async with self._places:
            connection = await self._dial()
            host, local = divmod(number, PER_HOST)
            key = f"4711.0/crowd/{number}"
            who = {"key": key, "host": f"gpu{host:03}", "local_rank": local, "pid": 10_000 + number}
            register = registration(number, minor=PROTOCOL_MINOR, world_size=self.count, report=RUNNING, **who)
            await connection.send(encode(register))
            while not isinstance(decode(await connection.recv(), Sender.BROKER), Welcome):
                pass
        return connection

    async def _dial(self) -> ClientConnection:
        """Connect as ranks do, which dial again when the broker has closed their connection for others."""
        async with asyncio.timeout(DIAL_SECONDS):
            while True:
                try:
                    return await connect(f"{self._url}/agent", ssl=self._context, **options(self._token))
                except (ConnectionError, EOFError, InvalidMessage):
                    await asyncio.sleep(PAUSE_SECONDS)

    async def register_all(self) -> list[ClientConnection]:
        """Register all ranks, and say so."""
        connections = await asyncio.gather(*map(self.register, range(self.count)))
        print_line("all are registered")
        return connections


# ----------------------------------------------------------------------------------------------------------------- hold


class HeldRank:
    """A rank that is chosen, or held for the chosen ranks."""

    def __init__(
        self, connection: ClientConnection, number: int, chosen: tuple[int, ...], counts: Counter[str]
    ) -> None:
        self.is_chosen = number in chosen
        self.went_on = asyncio.Event()
        self.connection = connection
        self._chosen, self._counts = chosen, counts
        self._holds = HoldCounts(time.monotonic)
        self._reading = asyncio.create_task(self._read())

    async def stop(self) -> None:
        if self.is_chosen:
            await self.report(STOPPED.replace(session=None, arrivals=(Arrival(site=SITE, arrived=1, completed=0),)))
            return
        waiting = self._holds.visit(SITE, self._chosen)
        held = RankReport(state=RankState.HELD, stop=STOP.replace(reason="hold"))
        await self.report(held)
        self._holds.wait(waiting, 3600.0)
        await self.report(held.replace(waits=Waiting(site=SITE, count=1, ranks=self._chosen)))

    async def report(self, report: RankReport) -> None:
        await self.connection.send(encode(Report(report=report)))

    async def _read(self) -> None:
        async for frame in self.connection:
            message = decode(frame, Sender.BROKER)
            if isinstance(message, Chosen):
                self._counts["messages"] += 1
                self._counts["changes"] += len(message.ranks)
                self._holds.hear(message.site, message.ranks)
                if not self.went_on.is_set() and self._holds.judge().resumes:
                    self.went_on.set()
                    await self.report(RUNNING)


async def hold(crowd: Crowd, step: int) -> None:
    counts: Counter[str] = Counter()
    chosen = tuple(range(0, crowd.count, step))
    connections = await asyncio.gather(*map(crowd.register, range(crowd.count)))
    ranks = [HeldRank(connection, number, chosen, counts) for number, connection in enumerate(connections)]
    await asyncio.gather(*(rank.stop() for rank in ranks))
    began = time.monotonic()
    for rank in ranks:
        if rank.is_chosen:
            await rank.report(RUNNING.replace(arrivals=(Arrival(site=SITE, arrived=1, completed=1),)))
    await asyncio.gather(*(rank.went_on.wait() for rank in ranks if not rank.is_chosen))
    print_line(json.dumps({"released": time.monotonic() - began, **counts}))
    # An orderly exit would close a thousand connections one by one.
    os._exit(0)


# -------------------------------------------------------------------------------------------------------------- waiting


def groups(rank: int, world: int, completed: int, *, is_missing: bool) -> list[EvidenceRecord]:
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
    of_host = {"name": f"host{first}", "title": "tp", "members": f"{first}-{last}", "size": last - first + 1}
    return [everybody, everybody.replace(**of_host, enqueued=12, started=12, completed=12)]


def evidence(rank: int, world: int, *, is_missing: bool) -> tuple[EvidenceRecord, ...]:
    last = SEQUENCE - 1
    completed = CollectiveSeen(
        group="0", name="all_reduce", state=CollectiveState.COMPLETED, sequence=last, age=WAITED + 1
    )
    waiting = completed.replace(
        state=CollectiveState.ENQUEUED,
        sequence=SEQUENCE,
        shapes="[1000]",
        types="float32",
        size=4000,
        age=WAITED,
        timeout=1800.0,
    )
    reads = ActivityInfo(what=Activity.READ, target=Target.SOCKET, name="10.0.0.1:9 → 10.0.0.7:2049")
    does = reads if is_missing else ActivityInfo(what=Activity.COLLECTIVE, name="all_reduce")
    main = ThreadWait(thread="MainThread", does=does, is_main=True, frames=stack(is_missing=is_missing))
    feed = ThreadWait(thread="feed", does=ActivityInfo(what=Activity.QUEUE_GET, name="queue"), frames=(TRAIN,))
    return (
        SourceSeen(library="torch", version="2.13.0"),
        *groups(rank, world, last, is_missing=is_missing),
        *([] if is_missing else [waiting]),
        completed,
        main,
        *(feed.replace(thread=f"feed-{at}") for at in range(3)),
        ProcessSeen(state="S", main_cpu=90.0, input=1e9, output=1e6),
    )


def stack(*, is_missing: bool) -> tuple[Place, ...]:
    return (TRAIN, STEP, SHARD if is_missing else REDUCE)


async def answer(connection: ClientConnection, body: AnswerBody, age: float | None = None) -> None:
    """Answer questions until the connection ends; one that asks for stacks alone gets no rows."""
    whole, short = (
        Answer(request=0, kind=Kind.VALUE, body=body_of(one), age=age) for one in (body, body.replace(rows=()))
    )
    async for frame in connection:
        message = decode(frame, Sender.BROKER)
        if isinstance(message, Ask):
            counts = short if message.look is DetailLevel.STACK else whole
            await connection.send(encode(counts.replace(request=message.request)))


async def wait(crowd: Crowd, missing: int) -> None:
    async def wait_as(number: int, connection: ClientConnection) -> None:
        is_missing = number == missing
        rows, frames = evidence(number, crowd.count, is_missing=is_missing), stack(is_missing=is_missing)
        await answer(connection, AnswerBody(text="running", rows=rows, frames=frames), WAITED)

    await asyncio.gather(*(wait_as(*one) for one in enumerate(await crowd.register_all())))


# --------------------------------------------------------------------------------------------------------- stopping


async def stop_and_go(crowd: Crowd, seconds: float) -> None:
    async def move(rank: int, connection: ClientConnection) -> None:
        await asyncio.sleep(seconds * rank / crowd.count)
        number = 0
        while True:
            number += 1
            stop = STOP.replace(number=number, where=FRAMES[-1].replace(line=number))
            await connection.send(encode(Report(report=STOPPED.replace(stop=stop, session=None))))
            await asyncio.sleep(seconds)
            await connection.send(encode(Report(report=RUNNING)))
            await asyncio.sleep(seconds / 10)

    connections = await crowd.register_all()
    counts = AnswerBody(text="stopped", frames=FRAMES)
    await asyncio.gather(*(answer(one, counts) for one in connections), *map(move, range(crowd.count), connections))


async def main(kind: str, url: str, token: str, count: str, number: str = "") -> None:
    crowd = Crowd(url, token, int(count))
    if kind == "hold":
        await hold(crowd, int(number))
    elif kind == "waiting":
        await wait(crowd, int(number))
    else:
        await stop_and_go(crowd, float(number))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
