"""What the turns of an event loop took, and for how long keys may have waited."""

from __future__ import annotations

import asyncio
import sys
import time
from bisect import bisect_left
from collections.abc import Callable

import pytest
from websockets.frames import Frame, Opcode

from dbg_broker.net import loop
from dbg_broker.net.loop import BOUNDS, SWITCH_SECONDS, Histogram, LoopTimes, new_times, run_measured
from dbg_broker.net.outbox import FRAME_COST, Outbox
from dbg_broker.net.turns import SLICE_SECONDS, TURN_SECONDS, Account, Turns
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.messages import Goodbye, Refusal, Sender
from dbg_wire.records.ranks import RankState
from tests.support.counted import calls_of
from tests.unit.broker.peers import RUNNING, Broker, Peer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def only_class(histogram: Histogram) -> int:
    """Return the class of the only length that was counted."""
    assert sum(histogram.counts) == 1
    return histogram.counts.index(1)


def test_a_turn_lasts_from_one_wait_to_the_next() -> None:
    clock = Clock()
    times = LoopTimes(clock, lambda: clock.now / 10)
    times.goes_on(has_slept=True)
    clock.now += 0.2
    times.waits()
    clock.now += 50
    times.goes_on(has_slept=True)
    assert only_class(times.turns) == bisect_left(BOUNDS, 0.2)
    assert only_class(times.turns_processor) == bisect_left(BOUNDS, 0.02)
    assert abs(times.turns.total - 0.2) < 1e-9


def test_a_key_that_ended_the_loops_sleep_came_then() -> None:
    clock = Clock()
    times = LoopTimes(clock, clock)
    times.goes_on(has_slept=True)
    clock.now += 0.2
    times.waits()
    times.goes_on(has_slept=True)
    clock.now += 0.003
    times.key_is_passed_on()
    assert abs(times.keys.total - 0.003) < 1e-9


def test_a_key_found_without_sleep_may_have_come_during_the_turn_before() -> None:
    clock = Clock()
    times = LoopTimes(clock, clock)
    times.goes_on(has_slept=True)
    clock.now += 0.2
    times.waits()
    times.goes_on(has_slept=False)
    clock.now += 0.003
    times.key_is_passed_on()
    assert abs(times.keys.total - 0.203) < 1e-9
    assert abs(times.keys_processor.total - 0.203) < 1e-9


def test_a_timer_that_runs_early_is_not_late() -> None:
    times = LoopTimes(Clock(), Clock())
    times.timer_ran(-0.001)
    assert times.timers_late.total == 0


def longest_class(times: LoopTimes) -> float:
    """Return the lower bound of the class of the longest turn."""
    return max(bound for bound, count in zip((0.0, *BOUNDS), times.turns_processor.counts, strict=True) if count)


def nothing() -> None:
    """Do nothing."""


async def keep_the_loop() -> None:
    """Keep the loop busy for longer than 50 ms of processor time."""
    await asyncio.sleep(0)
    ends = time.thread_time() + 0.06
    while time.thread_time() < ends:
        pass
    await asyncio.sleep(0)


def test_a_call_that_keeps_the_loop_is_a_long_turn_and_a_sleep_is_none() -> None:
    times = new_times()
    run_measured(asyncio.sleep(0.06), times, nothing)
    quiet = longest_class(times)
    run_measured(keep_the_loop(), times, nothing)
    assert quiet < 0.05 <= longest_class(times)


def test_other_threads_give_the_interpreter_back_soon_while_the_loop_runs() -> None:
    seen = []

    async def look() -> None:
        seen.append(sys.getswitchinterval())

    before = sys.getswitchinterval()
    run_measured(look(), new_times(), nothing)
    assert seen == [pytest.approx(SWITCH_SECONDS)]
    assert sys.getswitchinterval() == before


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="policies are for Pythons without asyncio.Runner")
def test_a_loop_made_by_a_policy_measures_the_same() -> None:
    times = new_times()
    loop._run_with_policy(keep_the_loop(), lambda: asyncio.SelectorEventLoop(loop.MeasuredSelector(times, nothing)))
    assert longest_class(times) >= 0.05


def test_the_loop_goes_on_after_a_turn_without_memory() -> None:
    turns = 0

    def run_out() -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            raise MemoryError

    told: list[object] = []

    async def wait() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        await asyncio.sleep(0.01)

    run_measured(wait(), new_times(), run_out)
    assert [type(error) for error in told] == [MemoryError]


COST = SLICE_SECONDS / 4
"""Seconds that it takes to read a piece, in the simulated time of these tests."""

SHORT = Frame(Opcode.TEXT, b'{"type":"x"}').serialize(mask=True)
"""The shortest message of a type that no broker knows."""


class Loop:
    """An event loop with simulated time; a scheduled call runs in the next turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []
        self._next: list[Callable[[], None]] = []
        self.turns = Turns(Timers(lambda: self.now, lambda _, call: self._next.append(call), spent=lambda: self.now))

    @property
    def is_called(self) -> bool:
        return bool(self._next)

    def turn(self) -> float:
        """Run the calls that are due, and return how many seconds they took."""
        began = self.now
        due, self._next = self._next, []
        for call in due:
            call()
        return self.now - began


def share(connection: object) -> Account:
    return Account("job", "10.0.0.1", connection)


class Flood:
    """A sender with some pieces to read."""

    def __init__(self, loop: Loop, name: str, pieces: int) -> None:
        self.loop, self.name, self.pieces = loop, name, pieces

    def work(self, is_over: Callable[[], bool]) -> bool:
        while self.pieces:
            self.pieces -= 1
            self.loop.done.append(self.name)
            self.loop.now += COST
            if is_over():
                break
        return self.pieces > 0


def test_what_comes_while_nobody_waits_is_taken_at_once() -> None:
    loop = Loop()
    assert not loop.turns.submit(Flood(loop, "a", 3).work, share("a"), types=False)
    assert loop.done == ["a"] * 3


def test_short_messages_have_the_loop_turn_no_more_often() -> None:
    loop = Loop()
    loops = 0
    for _ in range(int(10 * TURN_SECONDS / COST)):
        loop.turns.submit(Flood(loop, "a", 1).work, share("a"), types=False)
        assert not len(loop.turns)
        loops += loop.is_called
        loop.turn()
    assert loops <= 20


def test_a_flood_has_its_slice_of_each_turn_and_the_next_one_has_its_own() -> None:
    loop = Loop()
    assert loop.turns.submit(Flood(loop, "flood", 1000).work, share("flood"), types=False)
    assert loop.now < 2 * SLICE_SECONDS
    assert loop.turns.submit(Flood(loop, "other", 1).work, share("other"), types=False)
    loop.turn()
    assert "other" in loop.done
    assert loop.done.count("flood") < 1000


def test_a_key_waits_for_no_line_of_floods() -> None:
    loop = Loop()
    for number in range(200):
        loop.turns.submit(Flood(loop, f"flood {number}", 1000).work, share(number), types=False)
    for _ in range(5):
        assert loop.turn() < 2 * TURN_SECONDS
        before = loop.now
        loop.turns.submit(Flood(loop, "key", 1).work, share("key"), types=True)
        assert loop.done[-1] == "key"
        assert loop.now - before < SLICE_SECONDS
    assert len(loop.turns) == 200


def test_all_have_their_turn_and_all_is_read() -> None:
    loop = Loop()
    senders = [Flood(loop, str(number), 20) for number in range(50)]
    for sender in senders:
        loop.turns.submit(sender.work, share(sender.name), types=False)
    while len(loop.turns):
        loop.turn()
    assert not any(sender.pieces for sender in senders)
    assert len(set(loop.done[: len(loop.done) // 2])) == 50


def test_what_is_due_waits_for_one_slice_of_those_before_it_and_for_no_flood() -> None:
    loop = Loop()
    loop.turns.call_after_current_queue(lambda: loop.done.append("at once"))
    assert loop.done == ["at once"]
    loop.turns.submit(Flood(loop, "flood", 1_000_000).work, share("flood"), types=False)
    loop.turns.submit(Flood(loop, "answer", 1).work, share("answer"), types=False)
    loop.turns.call_after_current_queue(lambda: loop.done.append("due"))
    assert "due" not in loop.done
    loop.turn()
    assert loop.done.index("answer") < loop.done.index("due")


def test_a_full_queue_is_left_alone_by_what_has_no_room() -> None:
    outbox = Outbox(0.0, 5_000 * (10 + FRAME_COST))
    outbox.is_paused = True
    while outbox.send_control(bytes(10)):
        pass
    # A walk through the queue for each message would take a thousand calls.
    assert calls_of(lambda: outbox.send_control(bytes(10))) < 50
    assert not outbox.send_control(bytes(10))


async def flood(peer: Peer, count: int) -> None:
    """Send messages that no broker knows, and read none of the refusals."""
    peer.websocket.transport.pause_reading()
    transport = peer.websocket.transport
    for _ in range(count // 1000):
        if transport.is_closing():
            return
        transport.write(SHORT * 1000)
        await asyncio.sleep(0)


async def test_a_rank_that_floods_is_read_as_slowly_as_it_may_send(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_REPORTED_PER_SECOND", 256 * limits.KIB)
    flooding = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    began = asyncio.get_running_loop().time()
    flooding.websocket.transport.write(SHORT * 1000)
    # Each message counts 2 KiB. The messages of the first second are free, and one piece is read before each pause.
    for _ in range(1000):
        await flooding.expect(Refusal)
        if asyncio.get_running_loop().time() - began > 1:
            break
    else:
        pytest.fail("all was read at once")


async def test_a_message_that_came_before_the_end_is_read(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    said = [Frame(Opcode.PING, b"").serialize(mask=True)] * (limits.MAX_REPORTED_PER_SECOND // 2048 + 10)
    rank.websocket.transport.write(b"".join(said))
    await rank.say(Goodbye(exit=3))
    rank.websocket.transport.close()
    await broker.left(lambda hub: not hub.ranks.links)
    (listed,) = broker.hub.ranks.registry.ranks()
    assert (listed.state, listed.end.exit) == (RankState.EXITED, 3)
