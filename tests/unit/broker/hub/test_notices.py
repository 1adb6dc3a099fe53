"""What terminals at a rank are told of what others do there by questions, over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from dbg_broker.net.metrics import Budget, Payer
from dbg_broker.terminals import notices
from dbg_wire.messages import Action, Answer, Ask, Kind, Mode, Notice, Question
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.broker.peers import STOPPED, Broker, Peer, attach, registration

KEY = registration(0).identity.key


def question(action: Action, text: str = "", *keys: str) -> Question:
    return Question(request=7, keys=keys or (KEY,), action=action, seconds=60.0, text=text)


async def told(terminal: Peer) -> str:
    return (await terminal.expect(Notice)).text


async def test_all_but_the_one_who_asks_are_told(broker: Broker) -> None:
    ranks = [await broker.rank(number, report=STOPPED) for number in range(2)]
    asking = await broker.seated(KEY, "bob@login1 (Claude)")
    watching, away = await broker.seated(KEY, mode=Mode.WATCH), await broker.seated(registration(1).identity.key)
    await asking.say(question(Action.WHERE))
    await asking.say(question(Action.COMMAND, "n"))
    await asking.say(question(Action.CONTINUE, "", KEY, registration(1).identity.key))
    assert await told(watching) == '"bob@login1 (Claude)" ran `n`'
    for terminal in (watching, away):
        ended = await terminal.expect(Notice)
        assert (ended.text, ended.ends_stop) == ('"bob@login1 (Claude)" let it go on', True)
    for rank in ranks:
        ask = await rank.expect(Ask, lambda ask: ask.action is Action.CONTINUE)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="continued"))
    # The one who has asked gets its answers and nothing else.
    assert not [message for message in await asking.all_so_far() if isinstance(message, Notice)]


async def test_connections_of_one_program_are_not_told_of_each_other(broker: Broker) -> None:
    await broker.rank(0, report=STOPPED)
    seated = await broker.seated(KEY, "me@login1 (VS Code)")
    terminal, other = await broker.seated(KEY, "me@login1"), await broker.seated(KEY, "me@login1")
    asking = await broker.terminal("me@login1 (VS Code)")
    await asking.say(question(Action.EVAL, "loss"))
    assert await told(terminal) == '"me@login1 (VS Code)" asked `loss`'
    await terminal.say(question(Action.COMMAND, "n"))
    assert await told(seated) == '"me@login1" ran `n`'
    assert [await told(other), await told(other)] == ['"me@login1 (VS Code)" asked `loss`', '"me@login1" ran `n`']


async def test_a_name_can_not_pretend_to_be_another(approved: Approved, broker: Broker) -> None:
    await broker.rank(0, report=STOPPED)
    terminal = await broker.seated(KEY)
    await (await broker.terminal('x" let it go on; "y')).say(question(Action.EVAL, "1\x1b[2J"))
    approved(await told(terminal))


async def test_a_flood_is_summed_up_and_counted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "SECONDS_FOR_ONE", 0.05)
    rank, terminal = await broker.rank(0, report=STOPPED), await broker.seated(KEY)
    asking = await broker.terminal("bob@login1")
    count = 40
    for number in range(count):
        await asking.say(question(Action.EVAL, f"x{number}"))
        ask = await rank.expect(Ask)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="1"))
    said = [await told(terminal)]
    while f"`x{count - 1}`" not in said[-1]:
        said.append(await told(terminal))
    more = [int(one.rpartition(" and ")[2].split()[0]) for one in said if " more before that" in one]
    assert said[: notices.TOLD_AT_ONCE] == [f'"bob@login1" asked `x{number}`' for number in range(notices.TOLD_AT_ONCE)]
    assert sum(more) + len(said) == count
    assert more
    assert broker.hub.connections.meters.budgets.of(Payer.DRIVER, Budget.DEEDS) >= sum(more)


async def test_what_was_counted_at_a_rank_is_not_told_at_another(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "SECONDS_FOR_ONE", seconds(0.2))
    rank, _ = await broker.rank(0, report=STOPPED), await broker.rank(1, report=STOPPED)
    terminal, asking = await broker.seated(KEY), await broker.terminal("bob@login1")
    for _ in range(notices.TOLD_AT_ONCE + 2):
        await asking.say(question(Action.EVAL, "loss"))
        ask = await rank.expect(Ask)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="1"))
    await terminal.say(attach(registration(1).identity.key))
    done = asyncio.Event()
    broker.hub.timers.schedule(2 * notices.SECONDS_FOR_ONE, done.set)
    await done.wait()
    assert "more before" not in str(await terminal.all_so_far())
