"""Questions to many ranks, over real sockets."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dbg_broker.home.tokens import Role
from dbg_broker.terminals import asking
from dbg_wire import messages
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Ask,
    Change,
    Finding,
    Goodbye,
    Kind,
    ProbeReply,
    Question,
    RankAnswer,
    Refusal,
    RefusalCode,
    Report,
    Sender,
    Snapshot,
    Subscribe,
    Welcome,
    Withdraw,
    answer_to,
)
from dbg_wire.records.inspection import CommandEnd, ScreenSize, command_line
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.answers import answers_of
from tests.unit.broker.peers import RUNNING, STOPPED, WHERE, Broker, Peer, registration


def key(number: int) -> str:
    return registration(number).identity.key


def question(*keys: str, **changes: Any) -> Question:
    return Question(**{"request": 7, "keys": keys, "action": Action.CONTINUE, "seconds": 60.0, **changes})


async def answers(terminal: Peer) -> dict[str, RankAnswer]:
    found: dict[str, RankAnswer] = {}
    while True:
        page = await terminal.expect(Answers)
        assert page.request == 7
        found.update({answer.key: answer for answer in answers_of(page)})
        if page.last:
            return found


async def reply(rank: Peer, text: str = "continued") -> Ask:
    ask = await rank.expect(Ask)
    await rank.send(answer_to(ask.request, Kind.VALUE, text))
    return ask


async def test_all_answers_arrive_with_their_ranks(broker: Broker) -> None:
    ranks = [await broker.rank(number) for number in range(3)]
    terminal = await broker.terminal()
    await terminal.send(question(key(0), key(1), key(2)))
    asked = [await reply(rank, f"answer {number}") for number, rank in enumerate(ranks)]
    assert {ask.action for ask in asked} == {Action.CONTINUE}
    found = await answers(terminal)
    assert [found[key(number)].text for number in range(3)] == ["answer 0", "answer 1", "answer 2"]


async def test_answers_arrive_before_the_last_one_and_equal_ones_once(broker: Broker) -> None:
    ranks = [await broker.rank(number) for number in range(3)]
    terminal = await broker.terminal()
    await terminal.send(question(key(0), key(1), key(2)))
    for rank, age in zip(ranks[:2], (1.0, None), strict=True):
        ask = await rank.expect(Ask)
        await rank.send(answer_to(ask.request, Kind.VALUE, "waits", age=age))
    first = await terminal.expect(Answers)
    assert not first.last
    (same,) = first.answers
    assert {one.key: one.age for one in same.each()} == {key(0): 1.0, key(1): None}
    await reply(ranks[2])
    last = await terminal.expect(Answers)
    assert [one.key for one in answers_of(last)] == [key(2)]
    assert last.last
    assert not len(broker.parts.from_ranks.asked.questions)


async def test_withdrawn_question_ends_at_once_without_silent_ranks(broker: Broker) -> None:
    ranks = [await broker.rank(number) for number in range(2)]
    terminal = await broker.terminal()
    await terminal.send(question(key(0), key(1)))
    await reply(ranks[0])
    late = await ranks[1].expect(Ask)
    await terminal.send(Withdraw(request=7))
    assert list(await answers(terminal)) == [key(0)]
    await ranks[1].send(answer_to(late.request, Kind.VALUE, "late"))
    await terminal.send(question(key(1), request=8))
    await reply(ranks[1], "in time")
    assert [one.text for one in answers_of(await terminal.expect(Answers))] == ["in time"]


async def test_broker_answers_at_once_if_it_knows_the_answer(approved: Approved, broker: Broker) -> None:
    gone = await broker.rank(0)
    await gone.send(Goodbye(exit=1))
    running = await broker.rank(1, report=RUNNING)
    await running.send(ProbeReply(where=WHERE))
    lost = await broker.rank(2)
    terminal = await broker.terminal()
    await terminal.send(Subscribe())
    await terminal.expect(Snapshot)
    await lost.cut()
    await terminal.expect(Change, lambda change: change.rank.state is RankState.LOST)
    await terminal.send(question(key(0), key(1), key(2), "nobody", seconds=60.0))
    found = await answers(terminal)
    assert (found[key(0)].kind, found[key(0)].text) == (Kind.LOST, "exited with status 1")
    assert (found[key(1)].kind, found[key(1)].text) == (Kind.RUNNING, "running, /home/me/train.py:41")
    assert (found[key(2)].kind, found["nobody"].kind) == (Kind.LOST, Kind.LOST)
    approved("\n".join(answer.text for answer in found.values()))


async def test_rank_that_ends_while_it_is_asked_ends_the_question(approved: Approved, broker: Broker) -> None:
    ranks = [await broker.rank(number) for number in range(3)]
    terminal = await broker.terminal()
    await terminal.send(question(key(0), key(1), key(2), seconds=60.0))
    for rank in ranks:
        await rank.expect(Ask)
    await ranks[0].send(Goodbye(exit=0))
    await ranks[1].cut()
    await broker.rank(2)
    found = await answers(terminal)
    assert {answer.kind for answer in found.values()} == {Kind.LOST}
    approved(found[key(0)].text)
    assert found[key(1)].text == "its connection ended"


async def test_rank_killed_from_the_debugger_names_the_terminal(broker: Broker) -> None:
    rank, driver = await broker.rank(), await broker.terminal()
    await driver.send(Subscribe())
    await driver.send(question(key(0), action=Action.KILL))
    ask = await rank.expect(Ask)
    await rank.send(answer_to(ask.request, Kind.VALUE, "killed"))
    await rank.send(Goodbye(exit=-signal.SIGKILL))

    info = (await driver.expect(Change, lambda message: message.rank.state is RankState.EXITED)).rank

    (link,) = broker.parts.terminals.links.values()
    assert info.detail == f"SIGKILL from {link.name}'s debugger"
    assert info.end.text == f"killed by {info.detail}"


async def test_watcher_may_request_only_screens(broker: Broker) -> None:
    rank = await broker.rank()
    watcher = await broker.terminal(role=Role.WATCHER)
    for action in (Action.CONTINUE, Action.KILL):
        await watcher.send(question(key(0), action=action))
        assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    size = ScreenSize(rows=12, columns=1000)
    await watcher.send(question(key(0), action=Action.SCREEN, inquiry=size))
    ask = await rank.expect(Ask)
    assert (ask.action, ask.inquiry) == (Action.SCREEN, size)
    await rank.send(answer_to(ask.request, Kind.VALUE, "", rows=("PuDB", "")))
    assert (await answers(watcher))[key(0)].rows == ("PuDB", "")


async def test_answer_with_a_kind_of_the_broker_closes_the_connection(broker: Broker) -> None:
    rank = await broker.rank()
    await rank.send_altered(answer_to(1, Kind.VALUE, ""), kind="lost")
    assert (await rank.closed())[0] == 1002


async def test_rank_with_an_invalid_answer_is_lost_and_others_are_received(broker: Broker) -> None:
    ranks = [await broker.rank(number) for number in range(3)]
    terminal = await broker.terminal()
    await terminal.send(question(*(key(number) for number in range(3)), seconds=600.0))
    await ranks[0].expect(Ask)
    await ranks[0].websocket.send('{"type":"answer","request":"first","kind":"value","text":7}')
    await ranks[1].expect(Ask)
    await ranks[1].websocket.send("\x00 no json")
    await reply(ranks[2])
    found = await answers(terminal)
    assert [found[key(number)].kind for number in range(3)] == [Kind.LOST, Kind.LOST, Kind.VALUE]


async def test_interrupt_of_an_unresponsive_rank_is_answered_and_passed_on(broker: Broker) -> None:
    rank = await broker.rank()
    found = broker.parts.ranks.registry.find(key(0))
    assert found is not None
    broker.parts.ranks.registry.fell_silent(found)
    terminal = await broker.terminal()
    await terminal.send(question(key(0), action=Action.INTERRUPT, seconds=600.0))
    response = (await answers(terminal))[key(0)]
    assert response.kind is Kind.RUNNING
    assert response.text.startswith("in C code")
    assert response.text.endswith("stops on return")
    assert (await rank.expect(Ask)).action is Action.INTERRUPT


async def test_pending_interrupt_is_listed_until_it_stops_the_rank_or_is_withdrawn(broker: Broker) -> None:
    rank = await broker.rank(0, report=RUNNING)
    terminal = await broker.terminal()
    await terminal.send(Subscribe())
    await terminal.expect(Snapshot)

    async def interrupt(kind: Kind, *, withdrawn: bool = False) -> None:
        await terminal.send(question(key(0), action=Action.INTERRUPT, withdrawn=withdrawn))
        ask = await rank.expect(Ask)
        await rank.send(answer_to(ask.request, kind, "in C code"))

    for kind, withdrawn, will_stop in (
        (Kind.RUNNING, False, True),
        (Kind.VALUE, True, False),
        (Kind.RUNNING, False, True),
    ):
        await interrupt(kind, withdrawn=withdrawn)
        assert (await terminal.expect(Change)).rank.will_stop == will_stop
    await rank.send(Report(report=STOPPED))
    stopped = (await terminal.expect(Change)).rank
    assert (stopped.state, stopped.will_stop) == (RankState.STOPPED, False)
    await rank.send(Report(report=RUNNING))
    assert not (await terminal.expect(Change)).rank.will_stop


async def test_open_questions_of_a_terminal_are_bounded(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_QUESTIONS", 1)
    rank = await broker.rank()
    terminal = await broker.terminal()
    await terminal.send(question(key(0)))
    await terminal.send(question(key(0), request=8))
    assert (await terminal.expect(Refusal)).code == RefusalCode.FULL
    await reply(rank)
    assert await answers(terminal)


async def test_questions_of_a_terminal_that_left_are_forgotten(broker: Broker) -> None:
    rank = await broker.rank()
    terminal = await broker.terminal()
    await terminal.send(question(key(0), seconds=60.0))
    await rank.expect(Ask)
    await terminal.cut()
    other = await broker.terminal()
    await other.send(question(key(0)))
    await reply(rank)
    assert (await answers(other))[key(0)].kind is Kind.VALUE
    assert not broker.parts.from_ranks.asked.questions.is_asked(key(0))


KEY = registration(0).identity.key
COMMAND = command_line(["nvidia-smi", "-L"])


async def guard(broker: Broker, kind: Finding = Finding.CALLED, key: str = KEY) -> Peer:
    peer = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await peer.send(messages.GuardReport(minor=0, key=key, kind=kind))
    await peer.expect(Welcome)
    return peer


def guard_question(*keys: str, **changes: Any) -> Question:
    fields = {"request": 7, "keys": keys or (KEY,), "action": Action.EXEC, "seconds": 60.0, "inquiry": COMMAND}
    return Question(**{**fields, **changes})


def answer(ask: Ask) -> Answer:
    return answer_to(ask.request, Kind.VALUE, "exit status 0", rows=(CommandEnd(), "GPU 0"))


async def only_answer(terminal: Peer) -> RankAnswer:
    (one,) = answers_of(await terminal.expect(Answers))
    return one


async def test_a_running_rank_is_asked_to_call_its_guard_which_answers(broker: Broker) -> None:
    rank, terminal = await broker.rank(), await broker.terminal()
    await terminal.send(guard_question())
    called = await rank.expect(Ask)
    assert (called.action, called.inquiry) == (Action.EXEC, COMMAND)
    beside = await guard(broker)
    ask = await beside.expect(Ask)
    assert (ask.request, ask.inquiry, 0 < ask.seconds <= 60) == (called.request, COMMAND, True)
    await beside.send(answer(ask))
    response = await only_answer(terminal)
    assert (response.kind, response.rows, response.frames) == (Kind.VALUE, (CommandEnd(), "GPU 0"), ())
    # The guard stays, and is asked itself from now on; its rank is not unresponsive by that.
    await terminal.send(guard_question(request=8, action=Action.NATIVE, text=""))
    assert (await beside.expect(Ask)).action is Action.NATIVE
    assert [known.state.value for known in broker.parts.ranks.registry.ranks()] == ["stopped"]
    await terminal.send(guard_question(request=9, action=Action.WHERE))
    assert (await rank.expect(Ask)).action is Action.WHERE


@pytest.mark.parametrize("how", ["leaves", "withdraws"])
async def test_command_ends_when_no_terminal_waits_for_it(broker: Broker, how: str) -> None:
    await broker.rank()
    terminal, beside = await broker.terminal(), await guard(broker)
    await terminal.send(guard_question())
    ask = await beside.expect(Ask)
    if how == "leaves":
        await terminal.cut()
    else:
        await terminal.send(Withdraw(request=7))
        assert (await terminal.expect(Answers)).last
    ended = await beside.expect(Ask)
    assert (ended.request, ended.withdrawn) == (ask.request, True)


async def test_a_command_is_never_given_to_a_second_guard(broker: Broker) -> None:
    rank, terminal, beside = await broker.rank(), await broker.terminal(), await guard(broker)
    await terminal.send(guard_question())
    await beside.expect(Ask)
    # The rank's connection may break meanwhile: its guard answers all the same.
    await rank.cut()
    await broker.left(lambda parts: not parts.ranks.links)
    second = await guard(broker)
    assert (await only_answer(terminal)).kind is Kind.ERROR
    await terminal.send(guard_question(request=8, action=Action.NATIVE, text=""))
    assert (await only_answer(terminal)).kind is Kind.LOST
    await second.cut()


async def test_question_of_a_guard_that_leaves_is_answered(approved: Approved, broker: Broker) -> None:
    await broker.rank()
    terminal, beside = await broker.terminal(), await guard(broker)
    await terminal.send(guard_question())
    await beside.expect(Ask)
    await beside.cut()
    approved((await only_answer(terminal)).text)


async def test_question_to_guards_without_a_command_is_refused(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.send(guard_question(inquiry=None))
    assert (await terminal.expect(Refusal)).code == RefusalCode.BAD_MESSAGE


async def test_watcher_may_not_run_commands_beside_a_rank(broker: Broker) -> None:
    await broker.rank()
    watcher = await broker.terminal(role=Role.WATCHER)
    beside = await guard(broker)
    for action in (Action.EXEC, Action.NATIVE):
        await watcher.send(guard_question(action=action))
        assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    await beside.cut()
