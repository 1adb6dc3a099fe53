"""The texts of log points, as clients get them that ask for those of all ranks, over real sockets."""

from __future__ import annotations

import pytest

from dbg_broker.net.metrics import Budget, Payer
from dbg_broker.terminals import notices
from dbg_wire.messages import Logged, Mode, Notice, Snapshot, Subscribe
from tests.unit.broker.peers import STOPPED, Broker, Peer, registration

KEY = registration(0).identity.key


async def listening(broker: Broker, name: str = "me@login1 (VS Code)") -> Peer:
    """Return a client that has asked for the texts of log points."""
    client = await broker.terminal(name)
    await listen(client)
    return client


async def listen(client: Peer, *, logs: bool = True) -> None:
    await client.say(Subscribe(logs=logs))
    await client.expect(Snapshot)


async def test_clients_that_ask_for_them_get_the_texts_of_all_ranks_and_terminals_those_of_their_own(
    broker: Broker,
) -> None:
    ranks = [await broker.rank(number) for number in range(2)]
    ide, terminal = await listening(broker), await broker.seated(KEY)
    for number, rank in enumerate(ranks):
        await rank.say(Notice(text=f"loss {number}", is_log=True))
        assert await ide.expect(Logged) == Logged(key=registration(number).identity.key, text=f"loss {number}")
    assert (await terminal.expect(Notice)).text == "loss 0"
    assert not [message for message in await terminal.all_so_far() if isinstance(message, (Notice, Logged))]
    # A notice that is no text of a log point is for the terminals at the rank.
    await ranks[0].say(Notice(text="the stop ends"))
    assert (await terminal.expect(Notice)).text == "the stop ends"
    assert not [message for message in await ide.all_so_far() if isinstance(message, (Notice, Logged))]


async def test_a_long_text_is_cut(broker: Broker) -> None:
    rank, ide = await broker.rank(0), await listening(broker)
    await rank.say(Notice(text="x" * 10_000, is_log=True))
    assert (await ide.expect(Logged)).text == "x" * (notices.MAX_TEXT - 1) + "…"


async def test_a_client_at_the_rank_gets_each_text_once(broker: Broker) -> None:
    rank = await broker.rank(0, report=STOPPED)
    ide = await broker.seated(KEY, mode=Mode.WATCH)
    await listen(ide)
    await rank.say(Notice(text="loss", is_log=True))
    await ide.expect(Logged)
    assert not [message for message in await ide.all_so_far() if isinstance(message, (Notice, Logged))]


async def test_a_client_that_asks_no_more_or_is_gone_gets_none(broker: Broker) -> None:
    rank = await broker.rank(0)
    former, gone, other = await listening(broker), await listening(broker), await listening(broker)
    await listen(former, logs=False)
    number = max(broker.hub.terminals.links) - 1
    assert number in broker.hub.terminals.log_listeners.behind
    await gone.cut()
    await broker.left(lambda hub: number not in hub.terminals.links)
    await rank.say(Notice(text="loss", is_log=True))
    await other.expect(Logged)
    assert list(broker.hub.terminals.log_listeners.behind) == [number + 1]
    assert not [message for message in await former.all_so_far() if isinstance(message, Logged)]


async def test_of_a_flood_a_part_comes_and_the_others_are_counted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MAX_A_SECOND", 5)
    rank, ide = await broker.rank(0), await listening(broker)
    for number in range(40):
        await rank.say(Notice(text=f"loss {number}", is_log=True))
    said = [await ide.expect(Logged)]
    while said[-1].text != "loss 39":
        said.append(await ide.expect(Logged))
    assert [one.text for one in said[:5]] == [f"loss {number}" for number in range(5)]
    assert len(said) + sum(one.left_out for one in said) == 40
    assert broker.hub.connections.meters.budgets.of(Payer.RANK, Budget.LOGS) >= 30
