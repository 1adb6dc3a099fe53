"""Answers of other brokers to questions of this one's terminals."""

from __future__ import annotations

import asyncio
import typing
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.home.bearer import Role
from dbg_broker.hub import asking
from dbg_broker.hub.cluster import remote_terminal
from dbg_broker.hub.cluster.legs import CREDIT_BYTES
from dbg_broker.hub.cluster.messages import (
    CloseLeg,
    ClusterMessage,
    LegFrame,
    LegSaid,
    LegSilent,
    LegTaken,
    OpenLeg,
    decode,
)
from dbg_broker.hub.cluster.remote_answers import RemoteQuestion, seconds_there, take
from dbg_broker.hub.cluster.remote_terminal import WINDOW_BYTES, HostedLegs, RemoteTerminal
from dbg_broker.net.websocket import CloseCode, pack_data, pack_message, pack_text
from dbg_broker.ranks.questions import MIN_SECONDS, OpenQuestions
from dbg_wire import limits
from dbg_wire.codec import encode
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Ask,
    Greet,
    Kind,
    Mode,
    Notice,
    Probe,
    Progress,
    Question,
    RankAnswer,
)
from dbg_wire.records.ranks import Place
from tests.conftest import Approved
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import attach


def opened(several: Several, *keys: str) -> RemoteQuestion:
    """Return a question that is open at the first broker."""
    questions = several.brokers[0].hub.ranks.questions
    number, _ = questions.ask(1, Question(request=7, keys=keys, action=Action.EVAL, seconds=9.0), 0.0)
    return RemoteQuestion(number, dict.fromkeys(keys), 9.0)


def page(remote: RemoteQuestion, *answers: RankAnswer, last: bool = True) -> bytes:
    return encode(Answers(request=remote.number, answers=answers, last=last)).encode()


def value(number: int, text: str = "1") -> RankAnswer:
    return RankAnswer(key=key(number), kind=Kind.VALUE, text=text)


async def test_answers_of_ranks_that_were_not_asked_are_left_out(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0), key(1))
    questions = {remote.number: remote}
    take(hub, questions, page(remote, value(0), value(2), last=False))
    take(hub, questions, page(remote, value(0, "again"), last=False))
    assert list(questions) == [remote.number]
    assert list(remote.missing) == [key(1)]
    finished = hub.ranks.questions.finish(remote.number)
    assert finished is not None
    assert b'"1"' in (finished.said[key(0)] or b"")
    assert finished.said[key(1)] is None


async def test_a_rank_without_an_answer_on_the_last_page_is_lost(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0), key(1), "own")
    questions = {remote.number: RemoteQuestion(remote.number, dict.fromkeys((key(0), key(1))), 9.0)}
    take(hub, questions, page(remote, value(0)))
    assert not questions
    finished = hub.ranks.questions.finish(remote.number)
    assert finished is not None
    assert b"its broker has no answer of it" in (finished.said[key(1)] or b"")
    assert finished.said["own"] is None


async def test_a_folded_answer_is_entered_for_each_rank_that_was_asked(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0), key(1), key(2))
    folded = value(0, "all the same").replace(also=(key(2), key(7)))
    take(hub, {remote.number: remote}, page(remote, folded, last=False))
    assert list(remote.missing) == [key(1)]
    finished = hub.ranks.questions.finish(remote.number)
    assert finished is not None
    assert finished.said[key(0)] is finished.said[key(2)] is not None
    assert key(7) not in finished.said


async def test_an_answer_that_no_broker_has_written_like_this_is_written_anew(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0))
    text = f'{{"also": [], "text": "1", "kind": "value", "key": "{key(0)}"}}'
    whole = f'{{"type":"answers","request":{remote.number},"answers":[{text}],"last":false}}'
    take(hub, {remote.number: remote}, whole.encode())
    # It was the last one.
    assert not hub.ranks.questions.is_open(remote.number)


async def test_a_question_over_several_brokers_has_one_folded_answer(several: Several) -> None:
    ranks = [await broker.rank(number) for number, broker in enumerate(several.brokers)]
    for number in range(len(ranks)):
        await several.listed(number)
    terminal = await several.brokers[0].terminal()
    keys = tuple(key(number) for number in range(len(ranks)))
    await terminal.say(Question(request=7, keys=keys, action=Action.EVAL, seconds=9.0, text="x", live=True, fold=True))
    for rank in ranks:
        ask = await rank.expect(Ask)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="0.25"))
    (answer,) = (await terminal.expect(Answers)).answers
    assert (answer.text, {answer.key, *answer.also}) == ("0.25", set(keys))


async def test_a_tree_over_several_brokers_is_folded_with_the_ages_of_all_ranks(several: Several) -> None:
    ranks = [await broker.rank(number) for number, broker in enumerate(several.brokers)]
    ranks.append(await several.brokers[1].rank(len(ranks)))
    for number in range(len(ranks)):
        await several.listed(number)
    terminal = await several.brokers[0].terminal()
    keys = tuple(key(number) for number in range(len(ranks)))
    await terminal.say(Question(request=7, keys=keys, action=Action.WHERE, seconds=9.0, fold=True))
    frames = (Place(file="/train.py", line=7, function="step"),)
    for number, rank in enumerate(ranks):
        ask = await rank.expect(Ask)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="", frames=frames, age=number + 0.5))
    (answer,) = (await terminal.expect(Answers)).answers
    assert {one.key: one.age for one in answer.each()} == {one: number + 0.5 for number, one in enumerate(keys)}


@pytest.mark.parametrize("text", [b'{"type":"answers"', b'{"type":"answers","request":"x"}'])
async def test_what_is_no_page_is_refused(approved: Approved, several: Several, text: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        take(several.brokers[0].hub, {}, text)
    approved(str(caught.value))


@pytest.mark.parametrize("answer", ['{"kind":"value","text":""}', '{"key":1,"kind":"value"}', "[]"])
async def test_an_answer_without_a_rank_is_refused(several: Several, answer: str) -> None:
    remote = opened(several, key(0))
    text = f'{{"type":"answers","request":{remote.number},"answers":[{answer}]}}'
    with pytest.raises(PeerError):
        take(several.brokers[0].hub, {remote.number: remote}, text.encode())


def test_progress_of_other_brokers_counts_once() -> None:
    questions = OpenQuestions()
    keys = tuple(key(number) for number in range(6))
    number, _ = questions.ask(1, Question(request=7, keys=keys, action=Action.EVAL, seconds=9.0), 0.0)
    there, other = dict.fromkeys(keys[:3]), dict.fromkeys(keys[3:5])
    questions.note_progress(number, there, Progress(request=1, asked=3, answered=1, waiting=keys[1:3]))
    questions.note_progress(number, there, Progress(request=1, asked=3, answered=2, waiting=keys[2:3]))
    questions.note_progress(number, other, Progress(request=1, asked=2, answered=0, waiting=keys[3:5]))
    told = questions.progress(number)
    assert told is not None
    assert (told[1].asked, told[1].answered, set(told[1].waiting)) == (6, 2, {keys[2], keys[3], keys[4], keys[5]})
    for one in keys[:3]:
        questions.answer_for_rank(number, RankAnswer(key=one, kind=Kind.VALUE, text="1"))
    questions.note_progress(number, there, None)
    told = questions.progress(number)
    assert told is not None
    assert (told[1].answered, set(told[1].waiting)) == (3, set(keys[3:]))


@given(st.floats(MIN_SECONDS, 600.0))
def test_another_broker_has_less_time_but_some(left: float) -> None:
    assert MIN_SECONDS <= seconds_there(left) <= left


async def test_a_question_that_is_refused_there_has_an_answer_for_each_rank(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    limit = asking.MAX_QUESTIONS
    receive = several.brokers[0].hub.connections.handlers.text

    def full_there(connection: object, text: str) -> None:
        monkeypatch.setattr(asking, "MAX_QUESTIONS", 0)
        receive(connection, text)  # type: ignore[arg-type]
        monkeypatch.setattr(asking, "MAX_QUESTIONS", limit)

    handlers = several.brokers[0].hub.connections.handlers
    object.__setattr__(handlers, "text", full_there)
    await terminal.say(Question(request=7, keys=(key(0),), action=Action.EVAL, seconds=20.0, text="x"))
    (answer,) = (await terminal.expect(Answers)).answers
    assert (answer.kind, "questions are open already" in answer.text) == (Kind.LOST, True)


async def test_a_broker_that_goes_leaves_no_question_open(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    await terminal.say(Question(request=7, keys=(key(0),), action=Action.EVAL, seconds=60.0, text="x"))
    await rank.expect(Ask)
    several.kill(0)
    (answer,) = (await terminal.expect(Answers)).answers
    assert (answer.kind, answer.text) == (Kind.LOST, "its broker is gone")


async def test_answers_of_many_ranks_come_over_several_pages(several: Several) -> None:
    ranks = [await several.brokers[number % 2].rank(number) for number in range(16)]
    for number in range(16):
        await several.listed(number)
    terminal = await several.brokers[2].terminal()
    keys = tuple(key(number) for number in range(16))
    await terminal.say(Question(request=7, keys=keys, action=Action.EVAL, seconds=60.0, text="x"))

    async def answer(number: int) -> None:
        ask = await ranks[number].expect(Ask)
        await ranks[number].say(Answer(request=ask.request, kind=Kind.VALUE, text=f"{number}" + "v" * 16_000))

    await asyncio.gather(*map(answer, range(16)))
    found: dict[str, str] = {}
    while True:
        part = await terminal.expect(Answers)
        found |= {one.key: one.text for one in part.answers}
        if part.last:
            break
    assert [found[key(number)].rstrip("v") for number in range(16)] == [str(number) for number in range(16)]


OPENED = OpenLeg(leg=3, role=Role.DRIVER, name="me@h", token="", job=None, digest=b"", peer="10.0.0.1:5")


class Owner:
    """What is sent by one leg, and whether it had no room."""

    def __init__(self) -> None:
        self.sent: deque[ClusterMessage] = deque()
        self.has_overflowed = False
        owner = typing.cast(HostedLegs, self)
        self.terminal = RemoteTerminal(1, OPENED, "two", owner, 0.0)

    def send(self, broker: str, message: ClusterMessage) -> bool:
        assert broker == "two"
        self.sent.append(message)
        return True

    def overflowed(self, terminal: RemoteTerminal) -> None:
        self.has_overflowed = True

    def closed(self, terminal: RemoteTerminal, code: int, reason: str) -> None:
        self.sent.append(CloseLeg(leg=terminal.leg, by_terminal=False, code=code, reason=reason))

    def frames(self) -> list[bytes]:
        return [message.frame for message in self.sent if isinstance(message, LegFrame)]


STEPS = st.lists(
    st.tuples(st.sampled_from(["control", "output", "credit"]), st.integers(1, WINDOW_BYTES // 2)), max_size=60
)


@given(STEPS)
def test_no_more_than_a_window_is_under_way_and_no_control_message_is_lost(steps: list[tuple[str, int]]) -> None:
    owner = Owner()
    terminal, said, arrived = owner.terminal, [], 0
    dropped = False
    for serial, (what, size) in enumerate(steps):
        if what == "control":
            said.append(pack_text(b"%06d" % serial + b"c" * size))
            assert terminal.send_control(said[-1])
        elif what == "output":
            frame = pack_data(b"%06d" % serial + b"o" * size)
            if terminal.send_output(frame, limits.MAX_SCREEN_BACKLOG):
                said.append(frame)
            else:
                dropped = True
        else:
            arrived = _take(owner, arrived, size)
        under_way = sum(map(len, owner.frames()[arrived:]))
        assert under_way < WINDOW_BYTES + WINDOW_BYTES // 2 + 20
    while len(owner.frames()) > arrived:
        arrived = _take(owner, arrived, WINDOW_BYTES)
    assert terminal.is_ready
    assert terminal.missed_output() == dropped
    came = owner.frames()
    # What has waited may have been dropped, as a repaint follows; all else has come once and in order.
    assert came == [frame for frame in said if frame in set(came)]
    assert [frame for frame in came if frame[0] == 0x81] == [frame for frame in said if frame[0] == 0x81]
    assert not owner.has_overflowed


def _take(owner: Owner, arrived: int, size: int) -> int:
    """Give back credit for about so many bytes of the frames that have come, and return how many these are by then."""
    taken = 0
    frames = owner.frames()
    while arrived < len(frames) and taken < size:
        taken += len(frames[arrived])
        arrived += 1
    owner.terminal.taken(taken)
    return arrived


def test_a_terminal_that_takes_little_is_never_stalled_for_what_it_needs_not_tell() -> None:
    owner = Owner()
    owner.terminal.send_message(Probe())
    assert not owner.terminal.is_stalled(0.0, 60.0)
    assert not owner.terminal.is_stalled(1000.0, 60.0)
    assert CREDIT_BYTES < WINDOW_BYTES


def test_a_terminal_that_takes_nothing_is_stalled() -> None:
    owner = Owner()
    for _ in range(3):
        owner.terminal.send_control(pack_text(b"x" * WINDOW_BYTES))
    assert not owner.terminal.is_stalled(0.0, 60.0)
    assert owner.terminal.is_stalled(61.0, 60.0)


def test_without_room_the_terminal_is_closed_and_what_waits_is_dropped() -> None:
    owner = Owner()
    while owner.terminal.send_control(pack_text(b"x" * WINDOW_BYTES)):
        pass
    assert owner.has_overflowed
    owner.terminal.close(CloseCode.SLOW, "it does not keep up", flush=False)
    assert len(owner.frames()) == 1
    assert owner.sent[-1] == CloseLeg(leg=3, by_terminal=False, code=CloseCode.SLOW, reason="it does not keep up")
    assert not owner.terminal.send_message(Probe())
    assert not owner.terminal.send_output(pack_data(b""))
    owner.terminal.close(CloseCode.DONE, "again")
    assert len(owner.sent) == 2


def test_what_waits_goes_out_before_a_close() -> None:
    owner = Owner()
    owner.terminal.send_control(pack_text(b"x" * WINDOW_BYTES))
    owner.terminal.send_message(Notice(text="the last one"))
    owner.terminal.close(CloseCode.GIVES_WAY, "another one needs the place")
    assert owner.frames()[-1] == pack_message(Notice(text="the last one"))


async def test_a_leg_that_is_not_known_is_closed(several: Several) -> None:
    one, two = several.clusters[:2]
    sent = several.nats.buses["one"].sent
    two.send("one", LegSaid(leg=77, frame=pack_text(b"{}")))
    await several.until(lambda: any(isinstance(decode(payload), CloseLeg) for _, payload in sent))
    assert len(one.hosted) == 0


async def test_a_broker_that_opens_too_many_legs_has_them_closed(several: Several) -> None:
    limit, remote_terminal.MAX_LEGS = remote_terminal.MAX_LEGS, 2
    try:
        for number in range(4):
            several.clusters[1].send("one", OPENED.replace(leg=number))
        several.clusters[1].send("one", OPENED.replace(leg=0))
        sent = several.nats.buses["one"].sent
        await several.until(lambda: sum(isinstance(decode(payload), CloseLeg) for _, payload in sent) == 3)
        assert len(several.clusters[0].hosted) == 2
    finally:
        remote_terminal.MAX_LEGS = limit


async def test_a_terminal_of_another_broker_that_breaks_the_protocol_is_closed(several: Several) -> None:
    one, two = several.clusters[:2]
    two.send("one", OPENED)
    two.send("one", LegSaid(leg=OPENED.leg, frame=pack_message(Greet(minor=0, release="1", name="x"))))
    sent = several.nats.buses["one"].sent
    await several.until(lambda: bool(sent) and isinstance(decode(sent[-1][1]), CloseLeg))
    closed = decode(sent[-1][1])
    assert isinstance(closed, CloseLeg)
    assert (closed.code, closed.reason) == (CloseCode.BAD_MESSAGE, "a second `greet`")
    await several.until(lambda: not several.brokers[0].hub.terminals.links)
    assert not one.hosted


async def test_credit_of_no_leg_and_of_one_that_has_ended_is_left_out(several: Several) -> None:
    one = several.clusters[0]
    one.hosted._taken("two", LegTaken(leg=5, count=10))
    one.hosted._silent("two", LegSilent(leg=5, seconds=1.0))
    one.hosted.ended("two", CloseLeg(leg=5, by_terminal=True, code=1000))
    assert len(one.hosted) == 0


async def test_a_revoked_token_ends_legs_at_the_ranks_broker(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].seated(key(0), mode=Mode.WATCH)
    for link in several.brokers[0].hub.terminals.links.values():
        link.connection.close(CloseCode.REVOKED, "its token was revoked")
    assert (await terminal.closed())[0] == CloseCode.REVOKED


async def test_a_rate_counts_at_the_ranks_broker_too(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    await terminal.say(attach(key(0)))
    await several.until(lambda: bool(several.clusters[0].hosted))
    (hosted,) = several.clusters[0].hosted._legs["two"].values()
    (link,) = several.brokers[1].hub.terminals.links.values()
    connection = several.brokers[1].hub.connections.open[link.number]
    hosted.rest(0.2)
    await several.until(lambda: connection._is_resting)
    await several.until(lambda: not connection._is_resting)
