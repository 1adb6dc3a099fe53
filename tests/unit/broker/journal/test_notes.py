"""Actions of terminals are noted with user, address and rank; keys are noted only if that is enabled."""

from __future__ import annotations

import contextlib

import pytest
from websockets.exceptions import InvalidStatus

from dbg_broker.home.tokens import Role
from dbg_broker.journal.journal import MAX_HOSTS, REFUSALS_SECONDS
from dbg_command.audit import AuditEntry, AuditEvent
from dbg_wire.codec import Input
from dbg_wire.messages import (
    Action,
    Answers,
    Ask,
    Detach,
    Interrupt,
    Logged,
    Notice,
    Question,
    Seat,
    Snapshot,
    Subscribe,
    Take,
)
from tests.conftest import Approved
from tests.unit.broker.peers import Broker, Peer, registration

KEY = registration().identity.key


@pytest.fixture
def noted(broker: Broker) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    broker.parts.journal.audit = entries.append
    return entries


async def test_actions_are_noted_with_terminal_address_and_rank(broker: Broker, noted: list[AuditEntry]) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    watcher = await broker.terminal("alice@h", Role.WATCHER)
    await driver.send(Question(request=1, keys=(KEY,), action=Action.WHERE, seconds=60.0, text="why"))
    await rank.expect(Ask)
    await driver.send(Interrupt(generation=1))
    await rank.expect(Interrupt)
    await driver.send(Take())
    await driver.expect(Seat)
    await driver.send(Input(session=1, stop=1, generation=2, offset=0, data=b"secret"))
    await driver.send(Detach())
    await watcher.cut()
    await broker.left(lambda parts: len(parts.terminals.links) == 1)
    seen = [(entry.what, entry.action, entry.role, entry.terminal, entry.job, entry.ranks) for entry in noted]
    me = ("driver", "me@login1")
    there = ("4711.0", "gpu013:0")
    assert seen == [
        (AuditEvent.CONNECT, "", *me, "", ""),
        (AuditEvent.ATTACH, "drive", *me, *there),
        (AuditEvent.CONNECT, "", "watcher", "alice@h", "", ""),
        (AuditEvent.QUESTION, "where", *me, *there),
        (AuditEvent.INTERRUPT, "", *me, *there),
        (AuditEvent.TAKE, "", *me, *there),
        (AuditEvent.DETACH, "", *me, *there),
        (AuditEvent.LEAVE, "", "watcher", "alice@h", "", ""),
    ]
    assert all(entry.address.startswith("127.0.0.1:") for entry in noted)
    assert "secret" not in repr(noted)
    assert noted[3].text == "why"


async def test_input_is_noted_if_enabled(broker: Broker, noted: list[AuditEntry]) -> None:
    broker.parts.journal.audits_input = True
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await driver.send(Input(session=1, stop=1, generation=1, offset=0, data=b"p x\xff"))
    await rank.expect_data()
    assert [entry.text for entry in noted if entry.what is AuditEvent.INPUT] == ["p x\\xff"]


async def test_a_question_to_many_ranks_is_one_entry_for_each_job(broker: Broker, noted: list[AuditEntry]) -> None:
    keys = []
    for number in range(3):
        await broker.rank(number)
        keys.append(registration(number).identity.key)
    await broker.rank(7, job="other", key="other/7")
    driver = await broker.terminal()
    await driver.send(Question(request=1, keys=(*keys, "other/7", "gone"), action=Action.KILL, seconds=0.1))
    await driver.expect(Answers)
    asked = [(entry.job, entry.ranks) for entry in noted if entry.what is AuditEvent.QUESTION]
    assert asked == [("4711.0", "0-2"), ("other", "gpu013:7")]


async def test_refused_tokens_of_one_address_are_counted_together(
    approved: Approved, broker: Broker, noted: list[AuditEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def knock() -> None:
        with contextlib.suppress(InvalidStatus):
            await broker.dial("/client", "nobody's-token-is-this")

    for _ in range(5):
        await knock()
    monkeypatch.setattr(broker.parts.timers, "clock", lambda: 10**9)
    await knock()
    assert [(entry.what, entry.count) for entry in noted] == [(AuditEvent.REFUSE, 1), (AuditEvent.REFUSE, 5)]
    approved(noted[0].text)


def test_a_flood_of_refusals_from_many_hosts_is_a_few_entries(broker: Broker, noted: list[AuditEntry]) -> None:
    now = 1000.0
    broker.parts.timers.clock = lambda: now
    for number in range(1000):
        broker.parts.journal.note_refusal(f"10.0.{number // 256}.{number % 256}:7", "the token is wrong")
    assert len(noted) == MAX_HOSTS + 1
    now += REFUSALS_SECONDS
    broker.parts.journal.note_refusal("10.9.9.9:7", "the token is wrong")
    assert (noted[-1].address, noted[-1].count) == ("10.9.9.9:7", 1)


KEY_LOG_TEXTS = registration(0).identity.key


async def listening(broker: Broker, name: str = "me@login1 (VS Code)") -> Peer:
    """Return a client that has asked for the texts of log points."""
    client = await broker.terminal(name)
    await listen(client)
    return client


async def listen(client: Peer, *, logs: bool = True) -> None:
    await client.send(Subscribe(logs=logs))
    await client.expect(Snapshot)


async def test_clients_receive_log_texts_of_all_ranks_and_terminals_of_their_own(
    broker: Broker,
) -> None:
    ranks = [await broker.rank(number) for number in range(2)]
    ide, terminal = await listening(broker), await broker.seated(KEY_LOG_TEXTS)
    for number, rank in enumerate(ranks):
        await rank.send(Notice(text=f"loss {number}", is_log=True))
        assert await ide.expect(Logged) == Logged(key=registration(number).identity.key, text=f"loss {number}")
    assert (await terminal.expect(Notice)).text == "loss 0"
    assert not [message for message in await terminal.all_so_far() if isinstance(message, (Notice, Logged))]
    # A notice that is no text of a log point is for the terminals at the rank.
    await ranks[0].send(Notice(text="the stop ends"))
    assert (await terminal.expect(Notice)).text == "the stop ends"
    assert not [message for message in await ide.all_so_far() if isinstance(message, (Notice, Logged))]
