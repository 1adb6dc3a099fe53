"""What a key, a step, a question, a hold and an import may take, in counts, which no busy machine changes.

Times are measured by ``make bench``, and fail no test.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from benchmarks.ends import Terminal, rank_end
from benchmarks.imports import RANK_PROGRAM
from dbg_wire.codec import Input, Output, encode_data
from dbg_wire.messages import Action, Answers, Ask, Kind, Question, Report, Seat, Snapshot, Subscribe, answer_to
from tests.full.attacks.target import Target
from tests.support.answers import answers_of as answers_in
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import start_ranks, wait_until_states, wait_until_stopped
from tests.support.time_unit import seconds
from tests.unit.broker import peers
from tests.unit.broker.peers import RUNNING, Peer, attach, registration

KEYS = 50
CALLS_OF_A_KEY = 4
"""The broker reads and sends a key, and reads and sends its echo."""

OTHER_CALLS = 20
"""Calls for what comes meanwhile: five for the ends of connections, and probes of the rank on a busy machine."""

STEPS = 10
BYTES_OF_A_STEP = 2500
"""A step in PuDB draws the rows that change: two lines of the source, the variable, the stack. The whole screen is
6 KiB and more."""

FRAMES_OF_A_QUESTION = 1
"""Frames that a rank gets: the question alone, which is its probe as well."""

RANKS = 48
"""As many as have room in one frame of answers."""

MODULES_OF_A_RANK = 94
"""Modules of ours in a rank after install(): each takes time and memory of every rank."""


class Calls:
    """Counts reads and writes of sockets by the thread in which :meth:`count` is the profiler."""

    MOVES = frozenset({"recv", "recv_into", "recvmsg", "send", "sendall", "sendmsg"})

    def __init__(self) -> None:
        self.moves = 0

    def count(self, _frame: FrameType, event: str, called: object) -> None:
        """Count one call."""
        if event == "c_call":
            self.moves += getattr(called, "__name__", "") in self.MOVES


async def test_a_key_and_its_echo_take_two_reads_and_two_writes(home: Path) -> None:
    calls = Calls()

    def typed(url: str, rank_token: str, driver_token: str) -> None:
        rank = rank_end(url, rank_token, 0)
        terminal = Terminal(url, driver_token, registration(0).identity.key)
        # What a terminal's coming brings is over once an echo has come.
        for number in range(KEYS + 1):
            if number == 1:
                calls.moves = 0
            terminal.type()
            while isinstance(rank.receive(), str):
                pass
            rank.send(encode_data(Output(1, number, b"n")))
            terminal.take()
        rank.connection.close()
        terminal.end.connection.close()

    async with peers.running_broker(home) as broker:
        sys.setprofile(calls.count)
        try:
            await asyncio.to_thread(typed, broker.url, broker.tokens.rank, broker.tokens.driver)
        finally:
            sys.setprofile(None)
    assert calls.moves <= CALLS_OF_A_KEY * KEYS + OTHER_CALLS
    assert calls.moves >= CALLS_OF_A_KEY * KEYS


async def test_a_question_is_one_frame_to_each_rank_and_one_answer_to_the_terminal(home: Path) -> None:
    received: Counter[int] = Counter()

    async def answer(number: int, rank: Peer) -> None:
        while True:
            message = await rank.next()
            received[number] += 1
            if isinstance(message, Ask):
                await rank.send(answer_to(message.request, Kind.VALUE, "1"))

    async with peers.running_broker(home) as broker:
        ranks = [await broker.rank(number, report=RUNNING, world_size=RANKS) for number in range(RANKS)]
        terminal = await broker.terminal()
        answering = [asyncio.create_task(answer(number, rank)) for number, rank in enumerate(ranks)]
        keys = tuple(registration(number).identity.key for number in range(RANKS))
        others = []
        for request in (1, 2):
            await terminal.send(Question(request=request, keys=keys, action=Action.WHERE, seconds=seconds(10)))
            while getattr(message := await terminal.next(), "request", None) != request:
                others.append(message)
            assert isinstance(message, Answers)
            assert (len(answers_in(message)), message.last) == (RANKS, True)
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
    assert others == []
    assert set(received) == set(range(RANKS))
    assert max(received.values()) <= FRAMES_OF_A_QUESTION * 2


def test_a_held_rank_gets_at_most_two_messages_about_the_chosen_rank(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    command = [sys.executable, "-m", "tests.support.crowd", "hold", broker.url, broker.tokens["rank"]]
    crowd = processes.start("crowd", [*command, str(RANKS), str(RANKS)])
    assert crowd.wait(seconds(60)) == 0
    held = RANKS - 1
    assert held <= json.loads(crowd.text())["messages"] <= 2 * held


PROGRAM = (
    """\
import dbg_agent
seen = int("10_000_000")
dbg_agent.set_trace()
"""
    + (STEPS + 2) * "seen = seen + 1\n"
)


def test_a_step_in_pudb_sends_only_the_changes_of_the_screen(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    start_ranks(processes, home, PROGRAM, 1)
    wait_until_stopped(home, 1)
    assert asyncio.run(bytes_of_steps(Target.of_home(broker.home))) <= BYTES_OF_A_STEP * STEPS


async def bytes_of_steps(target: Target) -> int:
    """Step STEPS times, each once the one before is drawn; return the bytes that came for all."""
    terminal = await target.terminal()
    await terminal.send(Subscribe(once=True))
    (rank,) = (await terminal.expect(Snapshot)).ranks
    await terminal.send(attach(rank.key, rows=24, columns=80))
    seat = await terminal.expect(Seat)
    opened = await terminal.expect(Report, lambda message: message.report.session is not None)
    session, stop = opened.report.session, opened.report.stop
    assert session is not None
    assert stop is not None
    drawn, counted = b"", 0
    for typed in range(STEPS + 1):
        await terminal.send(Input(session.number, stop.number, seat.generation or 0, typed, b"n"))
        while str(10_000_000 + typed).encode() not in drawn:
            data = await terminal.expect_data()
            drawn += data.data
            counted += len(encode_data(data)) if isinstance(data, Output) and typed else 0
    await terminal.cut()
    return counted


def test_a_running_rank_loads_few_modules_of_the_agent(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, RANK_PROGRAM, 1, env={"INSTALLS": "1"})
    wait_until_states(home, {0: "running"})
    rank.signal(signal.SIGUSR1)
    counts = json.loads(rank.wait_for_output(r"^\{.*\}$")[0])
    assert 0 < counts["ours"] <= MODULES_OF_A_RANK
