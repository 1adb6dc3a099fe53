"""Questions to the guards of ranks, over real sockets: each is given to one guard once, and ends with its asker."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.hub import guards
from dbg_wire import messages
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Ask,
    Finding,
    Kind,
    Question,
    RankAnswer,
    Refusal,
    RefusalCode,
    Sender,
    Welcome,
)
from dbg_wire.records.beside import CommandEnd, command_line
from tests.conftest import Approved
from tests.unit.broker.peers import Broker, Peer, registration

KEY = registration(0).identity.key
COMMAND = command_line(["nvidia-smi", "-L"])


async def guard(broker: Broker, kind: Finding = Finding.CALLED, key: str = KEY) -> Peer:
    peer = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await peer.say(messages.Testimony(minor=0, key=key, kind=kind))
    await peer.expect(Welcome)
    return peer


def question(*keys: str, **changes: Any) -> Question:
    told = {"request": 7, "keys": keys or (KEY,), "action": Action.EXEC, "seconds": 60.0, "inquiry": COMMAND}
    return Question(**{**told, **changes})


def answer(ask: Ask) -> Answer:
    return Answer(request=ask.request, kind=Kind.VALUE, text="exit status 0", rows=(CommandEnd(), "GPU 0"))


async def only_answer(terminal: Peer) -> RankAnswer:
    (one,) = (await terminal.expect(Answers)).answers
    return one


async def test_a_running_rank_is_asked_to_call_its_guard_which_answers(broker: Broker) -> None:
    rank, terminal = await broker.rank(), await broker.terminal()
    await terminal.say(question())
    called = await rank.expect(Ask)
    assert (called.action, called.inquiry) == (Action.EXEC, COMMAND)
    beside = await guard(broker)
    ask = await beside.expect(Ask)
    assert (ask.request, ask.inquiry, 0 < ask.seconds <= 60) == (called.request, COMMAND, True)
    await beside.say(answer(ask))
    said = await only_answer(terminal)
    assert (said.kind, said.rows, said.frames) == (Kind.VALUE, (CommandEnd(), "GPU 0"), ())
    # The guard stays, and is asked itself from now on; its rank is not unresponsive by that.
    await terminal.say(question(request=8, action=Action.NATIVE, text=""))
    assert (await beside.expect(Ask)).action is Action.NATIVE
    assert [known.state.value for known in broker.hub.ranks.registry.ranks()] == ["stopped"]
    await terminal.say(question(request=9, action=Action.WHERE))
    assert (await rank.expect(Ask)).action is Action.WHERE


@pytest.mark.parametrize("how", ["leaves", "withdraws", "deadline"])
async def test_a_command_ends_when_nobody_waits_for_it(broker: Broker, how: str) -> None:
    await broker.rank()
    terminal, beside = await broker.terminal(), await guard(broker)
    await terminal.say(question(seconds=0.2 if how == "deadline" else 60.0))
    ask = await beside.expect(Ask)
    if how == "leaves":
        await terminal.cut()
    elif how == "withdraws":
        await terminal.say(question(request=8, text="", withdrawn=True))
        assert (await terminal.expect(Answers)).answers[0].kind is Kind.SILENT
        assert (await terminal.expect(Answers)).answers[0].text == "ended"
    ended = await beside.expect(Ask)
    assert (ended.request, ended.withdrawn) == (ask.request, True)


async def test_a_command_is_never_given_to_a_second_guard(broker: Broker) -> None:
    rank, terminal, beside = await broker.rank(), await broker.terminal(), await guard(broker)
    await terminal.say(question())
    await beside.expect(Ask)
    # The rank's connection may break meanwhile: its guard answers all the same.
    await rank.cut()
    await broker.left(lambda hub: not hub.ranks.links)
    second = await guard(broker)
    said = await only_answer(terminal)
    assert (said.kind, said.text) == (Kind.ERROR, "its guard has gone, and has ended what it had begun")
    await terminal.say(question(request=8, action=Action.RAS, text=""))
    assert (await only_answer(terminal)).kind is Kind.LOST
    await second.cut()


async def test_what_was_given_to_a_guard_is_answered_though_the_rank_left(broker: Broker) -> None:
    rank, terminal, beside = await broker.rank(), await broker.terminal(), await guard(broker)
    await terminal.say(question())
    ask = await beside.expect(Ask)
    await rank.cut()
    await broker.left(lambda hub: not hub.ranks.links)
    await beside.say(answer(ask))
    assert (await only_answer(terminal)).text == "exit status 0"


async def test_a_guard_that_leaves_settles_what_it_was_given(approved: Approved, broker: Broker) -> None:
    await broker.rank()
    terminal, beside = await broker.terminal(), await guard(broker)
    await terminal.say(question())
    await beside.expect(Ask)
    await beside.cut()
    approved((await only_answer(terminal)).text)


async def test_who_can_not_be_asked_says_why(
    approved: Approved, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.rank(1)
    terminal = await broker.terminal()
    monkeypatch.setattr(guards, "MAX_OPEN", 0)
    await terminal.say(question(registration(1).identity.key))
    approved((await only_answer(terminal)).text)
    await terminal.say(question(inquiry=None))
    assert (await terminal.expect(Refusal)).code == RefusalCode.BAD_MESSAGE


async def test_one_guard_is_not_asked_too_much(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "MAX_ASKS", 1)
    await broker.rank()
    terminal, _ = await broker.terminal(), await guard(broker)
    await terminal.say(question())
    await terminal.say(question(request=8))
    full = await terminal.expect(Answers)
    assert (full.request, full.answers[0].text) == (8, "1 questions to its guard are open already")


async def test_a_watcher_may_read_what_nccl_says_and_run_nothing(broker: Broker) -> None:
    await broker.rank()
    watcher, other = [await broker.terminal(role=Role.WATCHER) for _ in range(2)]
    beside = await guard(broker)
    for action in (Action.EXEC, Action.NATIVE):
        await watcher.say(question(action=action))
        assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    for peer in (watcher, other):
        await peer.say(question(action=Action.RAS, text=""))
    ask = await beside.expect(Ask)
    await beside.say(answer(ask))
    for peer in (watcher, other):
        assert (await only_answer(peer)).text == "exit status 0"
