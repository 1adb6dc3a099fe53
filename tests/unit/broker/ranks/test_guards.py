"""Messages of the ranks' guards, over real sockets."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from dbg_broker.home.tokens import Role
from dbg_broker.journal.events import Event, EventDetector, EventKind
from dbg_broker.timers import Timers
from dbg_wire import messages
from dbg_wire.codec import encode
from dbg_wire.messages import (
    Action,
    Answers,
    Ask,
    Change,
    Finding,
    Goodbye,
    Hang,
    Kind,
    Message,
    Probe,
    ProbeReply,
    Question,
    Refusal,
    RefusalCode,
    Sender,
    Snapshot,
    Subscribe,
    Welcome,
    answer_to,
)
from dbg_wire.records.ranks import DIED, WITHOUT_TRACEBACK, Place, RankInfo, RankState
from tests.support.answers import answers_of
from tests.unit.broker.peers import Broker, Peer, registration

KEY = registration(0).identity.key
FRAMES = (Place(file="/home/me/train.py", line=41, function="step"),)
PLACES = [{"file": "/home/me/train.py", "line": 41, "function": "step"}]
OTHER_FRAMES = (Place(file="/home/me/data.py", line=61, function="load"),)


def found(kind: Finding = Finding.STUCK, **changes: Any) -> messages.GuardReport:
    # If this module imported the name Testimony, pytest would take the class for a test class.
    return messages.GuardReport(**{"minor": 0, "key": KEY, "kind": kind, "frames": FRAMES, "age": 10.0, **changes})


async def guard(broker: Broker, first: Message) -> Peer:
    """Connect as a guard and send one message."""
    peer = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await peer.send(first)
    return peer


async def terminal(broker: Broker) -> Peer:
    peer = await broker.terminal()
    await peer.send(Subscribe())
    return peer


async def listed(peer: Peer, state: RankState, exit_status: int | None = None) -> RankInfo:
    change = await peer.expect(Change, lambda message: (message.rank.state, message.rank.exit) == (state, exit_status))
    return change.rank


async def ask_where(peer: Peer, request: int = 7) -> None:
    await peer.send(Question(request=request, keys=(KEY,), action=Action.WHERE, seconds=5.0))


async def test_a_guard_makes_its_rank_unresponsive_and_answers_for_it(broker: Broker) -> None:
    rank, watcher = await broker.rank(), await terminal(broker)
    witness = await guard(broker, found())
    assert (await witness.expect(Welcome)).address == "gpu013:0"
    await listed(watcher, RankState.UNRESPONSIVE)
    assert [known.key for known in broker.parts.ranks.registry.ranks()] == [KEY]
    await ask_where(watcher)
    ask = await witness.expect(Ask)
    await witness.send(answer_to(ask.request, Kind.VALUE, "stuck", frames=OTHER_FRAMES))
    (answer,) = answers_of(await watcher.expect(Answers))
    assert (answer.kind, answer.text, answer.frames) == (Kind.VALUE, "stuck", OTHER_FRAMES)

    await ask_where(watcher, 8)
    await witness.expect(Ask)
    await witness.cut()
    # Without its guard the broker probes the rank again, and passes the open question to the rank itself.
    await rank.expect(Probe)
    again = await rank.expect(Ask)
    await rank.send(answer_to(again.request, Kind.VALUE, "running"))
    assert answers_of(await watcher.expect(Answers))[0].text == "running"
    assert [known.state for known in broker.parts.ranks.registry.ranks()] == [RankState.STOPPED]


async def test_a_guard_that_dials_again_leaves_the_open_question_to_the_rank(broker: Broker) -> None:
    rank, watcher = await broker.rank(), await terminal(broker)
    witness = await guard(broker, found())
    await listed(watcher, RankState.UNRESPONSIVE)
    await ask_where(watcher)
    await witness.expect(Ask)
    await guard(broker, found(Finding.CALLED))
    again = await rank.expect(Ask)
    await rank.send(answer_to(again.request, Kind.VALUE, "running"))
    assert answers_of(await watcher.expect(Answers))[0].text == "running"


async def test_end_of_a_rank_is_reported_once(broker: Broker) -> None:
    rank, watcher = await broker.rank(), await terminal(broker)
    await rank.send(Goodbye(exit=0))
    await listed(watcher, RankState.EXITED, 0)
    await rank.cut()
    await broker.left(lambda parts: not parts.ranks.links)
    await broker.rank(1)
    assert (await watcher.expect(Change)).rank.rank == 1


async def test_last_stack_is_kept_after_the_guard_leaves(broker: Broker) -> None:
    await broker.rank()
    watcher = await terminal(broker)
    witness = await guard(broker, found(Finding.SUSPENDED))
    await listed(watcher, RankState.UNRESPONSIVE)
    await witness.cut()
    await broker.left(lambda parts: not parts.ranks.guards)
    await ask_where(watcher)
    (answer,) = answers_of(await watcher.expect(Answers))
    assert (answer.kind, answer.frames) == (Kind.VALUE, FRAMES)
    assert answer.age is not None


@pytest.mark.parametrize("fatal_first", [True, False])
async def test_a_killed_rank_is_exited_with_its_signal(broker: Broker, fatal_first: bool) -> None:
    await broker.rank()
    watcher = await terminal(broker)
    first = Finding.FATAL if fatal_first else Finding.ENDED
    witness = await guard(broker, found(first, signal=signal.SIGSEGV))
    if fatal_first:
        await witness.expect(Welcome)
        assert [known.state for known in broker.parts.ranks.registry.ranks()] == [RankState.STOPPED]
        await witness.send(found(Finding.ENDED, signal=signal.SIGSEGV))
    # The rank is on another host, so the broker can't see by itself that the process is gone.
    info = await listed(watcher, RankState.EXITED, -signal.SIGSEGV)
    assert info.detail == "SIGSEGV"
    assert (await witness.closed())[0] == 1000
    await ask_where(watcher)
    (answer,) = answers_of(await watcher.expect(Answers))
    assert (answer.kind, answer.frames) == (Kind.LOST, FRAMES)


async def test_a_rank_that_ended_by_itself_is_exited_with_its_status(broker: Broker) -> None:
    await broker.rank()
    watcher = await terminal(broker)
    await guard(broker, found(Finding.ENDED, exit=4))
    info = await listed(watcher, RankState.EXITED, 4)
    assert (info.reason, info.detail) == (DIED, WITHOUT_TRACEBACK)
    await ask_where(watcher)
    (answer,) = answers_of(await watcher.expect(Answers))
    assert (answer.text, answer.frames) == (info.end.text, FRAMES)


async def test_goodbye_does_not_hide_a_later_signal(broker: Broker) -> None:
    rank, watcher = await broker.rank(), await terminal(broker)
    await rank.send(Goodbye(exit=0))
    await listed(watcher, RankState.EXITED, 0)
    await rank.cut()
    await guard(broker, found(Finding.ENDED, signal=signal.SIGABRT))
    info = await listed(watcher, RankState.EXITED, -signal.SIGABRT)
    assert info.detail == "SIGABRT"


@pytest.mark.parametrize(
    ("then", "fields"),
    [
        (registration(0), {}),
        (ProbeReply(where=None), {}),
        (found(key="another/0"), {}),
        (found(), {"signal": 99}),
        (found(), {"age": -1.0}),
        (found(), {"frames": PLACES * 300}),
        (answer_to(1, Kind.RUNNING, ""), {}),
        (answer_to(1, Kind.VALUE, ""), {"body": {"text": "", "frames": PLACES * 300}}),
    ],
    ids=[
        "a registration",
        "a pulse",
        "another rank",
        "a signal that is none",
        "an age below zero",
        "too many frames",
        "an answer",
        "an answer with too many frames",
    ],
)
async def test_a_guard_that_breaks_the_protocol_is_closed(
    broker: Broker, then: Message, fields: dict[str, object]
) -> None:
    await broker.rank()
    witness = await guard(broker, found())
    await witness.expect(Welcome)
    await witness.send_altered(then, **fields)
    assert (await witness.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert (await witness.closed())[0] == 1002


async def test_rank_known_only_from_its_guard_is_lost_with_it_or_registers(broker: Broker) -> None:
    peer = await terminal(broker)
    witness = await guard(broker, found(registration=registration(0)))
    await listed(peer, RankState.UNRESPONSIVE)
    await witness.cut()
    await listed(peer, RankState.LOST)
    witness = await guard(broker, found(registration=registration(0)))
    await witness.expect(Welcome)
    rank = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await rank.send(registration(0))
    await listed(peer, RankState.STOPPED)
    await witness.cut()
    await rank.send(Goodbye(exit=0))
    await listed(peer, RankState.EXITED, 0)


async def test_guard_can_register_only_its_own_rank(broker: Broker) -> None:
    report = json.loads(encode(found(registration=registration(0))))
    report["registration"]["identity"]["key"] = registration(1).identity.key
    witness = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await witness.websocket.send(json.dumps(report))
    assert (await witness.expect(Refusal)).code == RefusalCode.BAD_MESSAGE


HANG = Hang(job="4711.0", kind="missing", sentence="rank 3 is missing", ranks="3")


def listen(broker: Broker) -> list[Event]:
    """Have the events of a broker put into a list."""
    reported: list[Event] = []
    timers = broker.parts.timers
    occasions = EventDetector(reported.append, Timers(timers.clock, timers.schedule, wall=timers.clock))
    broker.parts.journal.occasions = occasions
    return reported


async def test_hang_reports_of_drivers_are_events_and_of_watchers_are_not(broker: Broker) -> None:
    reported = listen(broker)
    watcher, driver = await broker.terminal("alice@h", Role.WATCHER), await broker.terminal()
    for terminal in (watcher, driver):
        await terminal.send(HANG if terminal is driver else Hang(job="j", kind="dead", sentence="made up"))
        # The answer shows that the message before was received.
        await terminal.send(Subscribe(once=True))
        await terminal.expect(Snapshot)
    assert [(event.kind, event.job) for event in reported] == [(EventKind.HANG, "4711.0")]
