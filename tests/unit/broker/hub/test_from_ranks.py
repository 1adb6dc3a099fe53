"""Pulses: nobody reads one that nobody looks at, and what is asked for is read and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dbg_broker.hub import reception
from dbg_broker.hub.from_ranks import PULSE_BEGINS
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks import rank_record
from dbg_wire.codec import decode, encode
from dbg_wire.messages import Action, Answer, Answers, Ask, Kind, Message, Pulse, Question, RankAnswer, Sender
from dbg_wire.records.record import decode_record
from tests.unit.broker.peers import RUNNING, STOP, WHERE, Broker, Peer, registration, running_broker

KEY = registration().identity.key
PULSE = Pulse(where=WHERE, frames=(STOP.where, WHERE))
OTHER_ORDER = '{"where": null, "type": "pulse"}'


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return which texts of ranks the broker reads, at once or later."""
    texts: list[str] = []

    def at_once(text: str, sender: Sender) -> Message:
        if sender is Sender.AGENT:
            texts.append(text)
        return decode(text, sender)

    def later(kind: type[Message], text: str) -> object:
        texts.append(text)
        return decode_record(kind, text)

    monkeypatch.setattr(reception, "decode", at_once)
    monkeypatch.setattr(rank_record, "decode_record", later)
    return texts


async def say(rank: Peer, *texts: str) -> None:
    """Return when the broker has taken what a rank says."""
    for text in texts:
        await rank.websocket.send(text)
    await (await rank.websocket.ping())


async def where(broker: Broker) -> RankAnswer:
    """Return where a rank is said to be whose connection is lost."""
    terminal = await broker.terminal()
    await terminal.say(Question(request=1, keys=(KEY,), action=Action.WHERE, seconds=1.0))
    (answer,) = (await terminal.expect(Answers)).answers
    return answer


async def test_pulses_of_a_rank_that_nobody_looks_at_are_never_read(broker: Broker, read: list[str]) -> None:
    rank = await broker.rank(report=RUNNING)
    read.clear()
    heard = broker.hub.ranks.registry.find(KEY)
    assert heard is not None
    before = heard.heard
    await say(rank, *[encode(PULSE)] * 10)
    assert read == []
    assert heard.heard > before


async def test_stack_that_is_asked_for_is_that_of_the_last_pulse_and_is_read_once(
    broker: Broker, read: list[str]
) -> None:
    rank = await broker.rank(report=RUNNING)
    await say(rank, encode(Pulse(where=None)), encode(PULSE))
    read.clear()
    await rank.cut()
    await broker.left(lambda hub: not hub.ranks.links)
    assert [(await where(broker)).frames for _ in range(2)] == [PULSE.frames] * 2
    assert read == [encode(PULSE)]


async def test_the_stack_of_an_answer_is_the_last_one_that_is_known(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    terminal = await broker.terminal()
    await terminal.say(Question(request=1, keys=(KEY,), action=Action.WHERE, seconds=5.0))
    asked = await rank.expect(Ask)
    await say(rank, encode(Answer(request=asked.request, kind=Kind.VALUE, text="running", frames=PULSE.frames)))
    await rank.cut()
    await broker.left(lambda hub: not hub.ranks.links)
    assert (await where(broker)).frames == PULSE.frames


async def test_pulse_that_its_terminals_see_or_that_is_written_otherwise_is_read_at_once(
    broker: Broker, read: list[str]
) -> None:
    rank = await broker.rank(report=RUNNING)
    read.clear()
    await say(rank, OTHER_ORDER)
    driver = await broker.seated(KEY)
    await say(rank, encode(PULSE))
    assert await driver.expect(Pulse) == PULSE
    assert read == [OTHER_ORDER, encode(PULSE)]


@pytest.mark.parametrize(
    "wrong",
    [
        PULSE_BEGINS,
        f'{PULSE_BEGINS},"where":7}}',
        f'{PULSE_BEGINS},"where":null,"frames":[{{"file":"\\ud800","line":1,"function":"f"}}]}}',
        f'{PULSE_BEGINS},"type":"goodbye","where":null}}',
    ],
)
async def test_wrong_pulse_is_no_stack_and_one_that_would_be_passed_on_ends_the_connection(
    broker: Broker, wrong: str
) -> None:
    rank = await broker.rank(report=RUNNING)
    await say(rank, wrong)
    await rank.cut()
    await broker.left(lambda hub: not hub.ranks.links)
    assert (await where(broker)).frames == ()
    again = await broker.rank(report=RUNNING)
    await broker.seated(KEY)
    await again.websocket.send(wrong)
    assert (await again.closed())[0] == CloseCode.BAD_MESSAGE
