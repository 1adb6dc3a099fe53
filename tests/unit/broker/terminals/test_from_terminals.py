"""Messages between a rank and its terminals, over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from dbg_broker.terminals import listing
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Action,
    Applied,
    Ask,
    Change,
    Complete,
    Completions,
    Detach,
    Discarded,
    Goodbye,
    Interrupt,
    Kind,
    Message,
    Mode,
    Notice,
    Probe,
    ProbeReply,
    PromptInfo,
    PromptState,
    Question,
    Refusal,
    RefusalCode,
    Repaint,
    Replay,
    Replied,
    Reply,
    Report,
    Resize,
    Seat,
    SessionInfo,
    Snapshot,
    Subscribe,
    Take,
    Viewers,
    Welcome,
    answer_to,
)
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.conftest import Approved
from tests.unit.broker.peers import RUNNING, SECONDS, STOP, STOPPED, Broker, Peer, attach, registration

KEY = registration().identity.key


def keys(data: bytes, generation: int = 1, offset: int = 0) -> Input:
    return Input(session=1, stop=1, generation=generation, offset=offset, data=data)


async def test_output_reaches_every_terminal_unchanged(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    watcher = await broker.seated(KEY, "you@login1", Mode.WATCH)
    drawn = Output(session=1, offset=0, data=b"\x1b[2J\x00\xff hello")
    await rank.send(drawn)
    assert await driver.expect_data() == drawn
    assert await watcher.expect_data() == drawn


async def test_input_of_the_driver_reaches_the_rank_and_is_acknowledged(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await driver.send(keys(b"n"))
    assert await rank.expect_data() == keys(b"n")
    await rank.send(Applied(generation=1, offset=1))
    assert await driver.expect(Applied) == Applied(generation=1, offset=1)


async def test_rank_receives_the_viewers_and_their_size(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    seated = Viewers(viewers=1, generation=1, rows=40, columns=120, colors=256, driven=True)
    assert await rank.expect(Viewers) == seated
    await driver.send(Resize(rows=50, columns=200))
    assert await rank.expect(Viewers) == seated.replace(rows=50, columns=200)
    await driver.send(Detach())
    left = seated.replace(rows=50, columns=200, viewers=0, driven=False)
    assert await rank.expect(Viewers) == left


async def test_newcomer_gets_a_repaint_of_an_open_session(broker: Broker) -> None:
    rank = await broker.rank()
    await broker.seated(KEY)
    await rank.expect(Repaint)
    await broker.seated(KEY, mode=Mode.WATCH)
    await rank.expect(Repaint)


async def test_second_driver_becomes_a_watcher_until_it_takes_the_keyboard(broker: Broker) -> None:
    await broker.rank()
    first = await broker.seated(KEY, "first@h")
    second = await broker.terminal("second@h")
    await second.send(attach(KEY, Mode.DRIVE))
    seat = await second.expect(Seat)
    assert (seat.generation, seat.driver) == (None, "first@h")
    await second.send(Take())
    assert (await second.expect(Seat)).generation == 2
    lost = await first.expect(Seat)
    assert (lost.generation, lost.driver) == (None, "second@h")
    await first.send(keys(b"c"))
    assert (await first.expect(Refusal)).code == RefusalCode.NOT_DRIVING


async def test_input_of_an_earlier_generation_is_discarded_by_name(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await driver.send(attach(KEY))
    assert (await driver.expect(Seat)).generation == 2
    await driver.send(keys(b"abc", generation=1, offset=4))
    discarded = await driver.expect(Discarded)
    assert (discarded.generation, discarded.offset, discarded.count) == (1, 7, 3)
    await driver.send(keys(b"n", generation=2))
    assert await rank.expect_data() == keys(b"n", generation=2)


async def test_watchers_token_can_neither_type_nor_take_nor_drive(broker: Broker) -> None:
    rank = await broker.rank()
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    for attempt in (Take(), attach(KEY, Mode.DRIVE), attach(KEY, Mode.TAKE), attach(KEY, Mode.TAKE, resume=1)):
        await watcher.send(attempt)
        assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    for generation in (0, 1):
        await watcher.send(keys(b"c", generation))
        assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    driver = await broker.seated(KEY)
    await driver.send(keys(b"n"))
    assert await rank.expect_data() == keys(b"n")


async def test_terminal_keeps_its_seat_until_a_lost_rank_returns(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await rank.cut()
    await driver.expect(Change, lambda change: change.rank.state is RankState.LOST)
    again = await broker.rank(report=STOPPED.replace(generation=1, applied=3))
    seat = await driver.expect(Seat)
    assert (seat.generation, seat.report.applied) == (1, 3)
    await driver.send(keys(b"n", offset=3))
    assert await again.expect_data() == keys(b"n", offset=3)


async def test_unknown_rank_is_refused_with_its_key_escaped(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.send(attach("no/\x1b[31m"))
    refusal = await terminal.expect(Refusal)
    assert refusal.code == RefusalCode.NO_SUCH_RANK
    assert "no/" in refusal.text
    assert "\x1b" not in refusal.text


PROMPT = PromptInfo(number=3, offset=40, text="(Pdb) ", state=PromptState.COMMAND)
AT_PROMPT = STOPPED.replace(session=SessionInfo(number=1, engine="pdb", rows=24, columns=80), prompt=PROMPT)
REPLY = Reply(prompt=3, generation=1, text="p loss")
COMPLETE = Complete(request=1, prompt=3, generation=1, line="p lo", start=2, end=4)


async def next_about_the_prompt(rank: Peer) -> Message | bytes:
    """Return the next message to a rank that is about its prompt, log or screen; skip probes and audiences."""
    while True:
        message = await rank.next()
        if isinstance(message, (Reply, Complete, Interrupt, Replay, Repaint)):
            return message


@pytest.mark.parametrize("message", [REPLY, COMPLETE, Interrupt(generation=1)])
async def test_messages_of_the_driver_reach_the_rank(broker: Broker, message: Message) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    await driver.send(message)
    assert await next_about_the_prompt(rank) == message


@pytest.mark.parametrize("message", [REPLY, COMPLETE, Interrupt(generation=1)])
async def test_only_the_driver_may_send_messages_to_the_rank(broker: Broker, message: Message) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    other = await broker.terminal("other@h")
    await other.send(message)
    assert (await other.expect(Refusal)).code == RefusalCode.NOT_ATTACHED
    await other.send(attach(KEY, Mode.DRIVE))
    await other.expect(Seat)
    await other.send(message)
    assert (await other.expect(Refusal)).code == RefusalCode.NOT_DRIVING
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    await watcher.send(message)
    assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    await driver.send(Reply(prompt=3, generation=1, text="the driver's own"))
    assert await next_about_the_prompt(rank) == Reply(prompt=3, generation=1, text="the driver's own")


async def test_watcher_may_request_the_log_and_all_terminals_receive_it(broker: Broker) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    await watcher.send(Replay(session=1, offset=16))
    assert await next_about_the_prompt(rank) == Replay(session=1, offset=16)
    logged = Output(session=1, offset=16, data=b"(Pdb) p loss\n")
    await rank.send(logged)
    assert await driver.expect_data() == logged
    assert await watcher.expect_data() == logged


@pytest.mark.parametrize(
    "message",
    [Replied(prompt=3, taken=False, reason="too late"), Completions(request=1, matches=("loss",))],
)
async def test_messages_of_the_rank_reach_all_its_terminals(broker: Broker, message: Message) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    await rank.send(message)
    assert await driver.expect(type(message)) == message
    assert await watcher.expect(type(message)) == message


@pytest.mark.parametrize(
    ("message", "fields"),
    [(COMPLETE, {"end": 99}), (COMPLETE, {"start": -1}), (Replay(session=1, offset=0), {"offset": -1})],
)
async def test_invalid_message_closes_the_connection_of_the_terminal(
    broker: Broker, message: Message, fields: dict[str, object]
) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    await driver.send_altered(message, **fields)
    assert (await driver.closed())[0] == 1002
    await rank.expect(Probe)


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (Report(report=AT_PROMPT), {"report": {"state": "lost"}}),
    ],
)
async def test_invalid_report_closes_the_connection_of_the_rank(
    broker: Broker, message: Message, fields: dict[str, object]
) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    await rank.send_altered(message, **fields)
    assert (await rank.closed())[0] == 1002


async def snapshot(terminal: Peer) -> list[RankInfo]:
    ranks: list[RankInfo] = []
    while True:
        page = await terminal.expect(Snapshot)
        ranks.extend(page.ranks)
        if page.last:
            return ranks


async def test_collective_of_a_step_is_listed_until_it_ends(broker: Broker) -> None:
    rank = await broker.rank(3)
    terminal = await broker.terminal()
    await terminal.send(Subscribe())
    reducing = Place(file="/torch/distributed/distributed_c10d.py", line=1, function="all_reduce")
    # A pulse of a rank that doesn't step sets no collective.
    await rank.send(ProbeReply(where=None, frames=(STOP.where, reducing)))
    await rank.send(Report(report=STOPPED.replace(state=RankState.RUNNING, stepping=True)))
    await rank.expect(Probe)
    assert (await terminal.expect(Change, lambda change: change.rank.state is RankState.RUNNING)).rank.waits_in == ""
    await rank.send(ProbeReply(where=reducing, frames=(STOP.where, reducing)))
    assert (await terminal.expect(Change)).rank.waits_in == "all_reduce"
    await rank.send(Report(report=STOPPED))
    change = await terminal.expect(Change)
    assert (change.rank.state, change.rank.waits_in) == (RankState.STOPPED, "")
    await rank.send(Report(report=STOPPED.replace(state=RankState.RUNNING, stepping=True)))
    assert (await terminal.expect(Change)).rank.waits_in == ""


async def test_nothing_is_lost_between_snapshot_and_changes(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks come, stop and go while terminals subscribe at every moment; all of them end up with the same list."""
    monkeypatch.setattr(listing, "SNAPSHOT_RANKS", 3)
    count = 12

    async def life(number: int) -> None:
        rank = await broker.rank(number, report=RUNNING)
        for line in range(1, 4):
            await asyncio.sleep(0)
            stop = STOP.replace(number=line, where=STOP.where.replace(line=line))
            await rank.send(Report(report=STOPPED.replace(stop=stop)))
        if number % 2:
            await rank.send(Goodbye(exit=0))

    def is_final(rank: RankInfo) -> bool:
        return rank.state is RankState.EXITED if rank.rank % 2 else bool(rank.where and rank.where.line == 3)

    async def follow() -> None:
        terminal = await broker.terminal()
        await terminal.send(Subscribe())
        known = {rank.key: rank for rank in await snapshot(terminal)}
        while len(known) < count or not all(map(is_final, known.values())):
            change = await terminal.expect(Change)
            known[change.rank.key] = change.rank

    followers = []
    for number in range(count):
        followers.append(asyncio.create_task(follow()))
        await life(number)
    await asyncio.gather(*followers)


async def test_large_snapshot_reaches_a_slow_reader_whole(broker: Broker) -> None:
    for number in range(300):
        registered = registration(number, directory="/" + "d" * 4000)
        broker.parts.ranks.registry.register(registered, 0.0)
    terminal = await broker.terminal(max_queue=1)
    terminal.websocket.transport.pause_reading()
    await terminal.send(Subscribe())
    later = await broker.rank(300)
    await later.send(Report(report=RUNNING))
    terminal.websocket.transport.resume_reading()
    ranks = await snapshot(terminal)
    assert [rank.rank for rank in ranks][:300] == list(range(300))
    await terminal.expect(Change, lambda change: change.rank.rank == 300)


async def test_children_receive_their_numbers(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.send(Subscribe())
    await snapshot(terminal)
    child = await broker.rank(0, key="4711.0/child", pid=9000, ancestors=(8800,))
    assert (await terminal.expect(Change)).rank.address == "gpu013:0"
    await broker.rank(0)
    renamed = await terminal.expect(Change, lambda change: change.rank.key == "4711.0/child")
    assert renamed.rank.address == "gpu013:0.1"
    welcome = await child.expect(Welcome)
    assert (welcome.address, welcome.child) == ("gpu013:0.1", 1)


KEY_NOTICES = registration(0).identity.key


def question(action: Action, text: str = "", *keys: str) -> Question:
    return Question(request=7, keys=keys or (KEY_NOTICES,), action=action, seconds=60.0, text=text)


async def notice(terminal: Peer) -> str:
    return (await terminal.expect(Notice)).text


async def test_all_terminals_but_the_asking_one_are_notified(broker: Broker) -> None:
    ranks = [await broker.rank(number, report=STOPPED) for number in range(2)]
    asking = await broker.seated(KEY_NOTICES, "bob@login1 (Claude)")
    watching, away = (
        await broker.seated(KEY_NOTICES, mode=Mode.WATCH),
        await broker.seated(registration(1).identity.key),
    )
    await asking.send(question(Action.WHERE))
    await asking.send(question(Action.COMMAND, "n"))
    await asking.send(question(Action.CONTINUE, "", KEY_NOTICES, registration(1).identity.key))
    assert await notice(watching) == '"bob@login1 (Claude)" ran `n`'
    for terminal in (watching, away):
        ended = await terminal.expect(Notice)
        assert ended.ends_stop
        assert ended.text.startswith('"bob@login1 (Claude)" ')
    for rank in ranks:
        ask = await rank.expect(Ask, lambda ask: ask.action is Action.CONTINUE)
        await rank.send(answer_to(ask.request, Kind.VALUE, "continued"))
    # The one who has asked gets its answers and nothing else.
    assert not [message for message in await asking.all_so_far() if isinstance(message, Notice)]


async def test_connections_of_one_program_are_not_notified_of_each_other(broker: Broker) -> None:
    await broker.rank(0, report=STOPPED)
    seated = await broker.seated(KEY_NOTICES, "me@login1 (VS Code)")
    terminal, other = await broker.seated(KEY_NOTICES, "me@login1"), await broker.seated(KEY_NOTICES, "me@login1")
    asking = await broker.terminal("me@login1 (VS Code)")
    await asking.send(question(Action.EVAL, "loss"))
    assert await notice(terminal) == '"me@login1 (VS Code)" asked `loss`'
    await terminal.send(question(Action.COMMAND, "n"))
    assert await notice(seated) == '"me@login1" ran `n`'
    assert [await notice(other), await notice(other)] == ['"me@login1 (VS Code)" asked `loss`', '"me@login1" ran `n`']


async def test_name_cannot_imitate_another(approved: Approved, broker: Broker) -> None:
    await broker.rank(0, report=STOPPED)
    terminal = await broker.seated(KEY_NOTICES)
    await (await broker.terminal('x" ran `n`; "y')).send(question(Action.EVAL, "1\x1b[2J"))
    approved(await notice(terminal))


async def test_error_in_one_change_does_not_stop_the_next(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, rank = await broker.terminal(), await broker.rank()
    await terminal.send(Subscribe())
    await terminal.expect(Snapshot)
    has_failed = asyncio.Event()

    def fail(*_: object) -> bool:
        monkeypatch.undo()
        has_failed.set()
        raise MemoryError

    monkeypatch.setattr(broker.parts.terminals.listing, "_is_news", fail)
    await rank.send(Report(report=RUNNING))
    await asyncio.wait_for(has_failed.wait(), SECONDS)
    await broker.rank(1)
    assert (await terminal.expect(Change)).rank.key == registration(1).identity.key


async def test_error_with_one_seat_does_not_affect_the_others(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, sent, all_are_sent = range(10), list[int](), asyncio.Event()

    def send(number: int) -> None:
        sent.append(number)
        if len(sent) == len(numbers):
            all_are_sent.set()
        if number == 6:
            raise MemoryError

    monkeypatch.setattr(broker.parts.ranks, "send_seat", send)
    with monkeypatch.context() as listed:
        listed.setattr(broker.parts.relay, "terminals", dict.fromkeys(numbers))
        broker.parts.ranks.send_seats(numbers)
        await asyncio.wait_for(all_are_sent.wait(), SECONDS)
    assert sent == list(numbers)
