"""Tests of what a page asks, over a real socket and a scripted broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from aiohttp.web import WebSocketResponse

from dbg_client.web.messages import (
    LIVE,
    MAX_RANKS,
    TERMINAL,
    Bell,
    read,
)
from dbg_client.web.outbox import COST, Outbox
from dbg_wire.codec import Input
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Action, Change, Gone, Kind, Question, RankAnswer, Refusal, RefusalCode
from dbg_wire.records.ranks import Coordinate, RankInfo, RankState
from tests.conftest import Approved
from tests.support.pages import EncodedAnswer, Socket, browser_at, opened, served
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import FakeBroker, make_rank

CHANGING = ("eval loss", "command all n", "interrupt 7", "continue 5", "release all", "kill 5", "where --native")


def answers(broker: FakeBroker, action: Action, texts: Mapping[int, str]) -> None:
    for number, text in texts.items():
        key = make_rank(number).key
        broker.answers_by_key[key] = RankAnswer(key=key, kind=Kind.VALUE, text=text, digest=f"d{text}")
    broker.answers[action] = RankAnswer(key="", kind=Kind.RUNNING, text="running")


def members(answer: EncodedAnswer) -> dict[str, list[str]]:
    return {group["id"]: group["keys"] for group in answer["groups"]}


def asked_count(answer: EncodedAnswer) -> int:
    return sum(len(keys) for keys in members(answer).values())


async def test_an_answer_has_the_keys_of_its_groups(broker: FakeBroker) -> None:
    answers(broker, Action.EVAL, {5: "0.25", 6: "<b>nan</b>\x1b[2J"})

    async with opened(broker.environment) as browser, browser.live() as live:
        answer = await live.answer(1, "eval loss")
        assert [(group["id"], group["text"], group["keys"]) for group in answer["groups"]] == [
            ("@1", "0.25", [make_rank(5).key]),
            ("@2", "<b>nan</b>\x1b[2J", [make_rank(6).key]),
        ]
        assert "2 of 2" in answer["summary"]
        # A group of the answer on the screen is a target, for this page alone.
        assert members(await live.answer(2, "eval @2 loss", shown=1)) == {"@1": [make_rank(6).key]}
        async with browser.live() as other:
            assert "@2" in (await other.answer(1, "eval @2 loss", shown=1))["sentence"]


async def test_a_group_name_refers_to_the_shown_answer_and_not_to_the_last_one(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.live() as live:
        answers(broker, Action.EVAL, {5: "0.25", 6: "nan"})
        await live.answer(1, "loss")
        answers(broker, Action.EVAL, {5: "6", 6: "6"})
        assert list(members(await live.answer(2, "rank"))) == ["@1"]
        assert members(await live.answer(3, "command @2 n", shown=1)) == {"@1": [make_rank(6).key]}
        assert "@2" in (await live.answer(4, "command @2 n", shown=2))["sentence"]


async def test_a_line_applies_to_the_named_else_the_chosen_else_the_usual_ranks(broker: FakeBroker) -> None:
    async def asked(live: Socket, number: int, line: str, **fields: object) -> list[str]:
        assert (await live.answer(number, line, **fields))["type"] == "answer"
        questions = [item for item in broker.received if isinstance(item, Question)]
        return [key.rpartition("/")[0].rpartition(":")[2] for key in questions[-1].keys]

    async with opened(broker.environment) as browser, browser.live() as live:
        chosen = [make_rank(6).key]
        assert await asked(live, 1, "where") == ["5", "6", "7"]
        assert await asked(live, 2, "where", keys=chosen) == ["6"]
        assert await asked(live, 3, "where 7", keys=chosen) == ["7"]
        assert await asked(live, 4, "where", ranks="5-6") == ["5", "6"]
        assert await asked(live, 5, "eval loss") == ["5", "6"]
        for number, line in enumerate(("command p loss", "command 6 p loss"), 6):
            assert await asked(live, number, line, keys=chosen) == ["6"]
            assert [item.text for item in broker.received if isinstance(item, Question)][-1] == "p loss"
        # What begins with no verb is an expression, which has the letters of short forms, too.
        assert await asked(live, 8, "w", keys=chosen) == ["6"]
        assert [item.text for item in broker.received if isinstance(item, Question)][-1] == "w"


async def test_ranks_are_found_by_a_target(broker: FakeBroker) -> None:
    answers(broker, Action.EVAL, {5: "1", 6: "2"})

    async with opened(broker.environment) as browser, browser.live() as live:

        async def found(text: str) -> list[int] | None:
            await live.send("find", id=1, text=text, shown=2)
            while (message := await live.next()) is None or message.get("id") != 1:
                pass
            keys = {make_rank(number).key: number for number in (5, 6, 7)}
            return [keys[key] for key in message["keys"]] if message["type"] == "found" else None

        assert await found("5-6") == [5, 6]
        assert await found("gpu*:*,!5") == [6, 7]
        assert await found("running") == [7]
        assert await found("99") == []
        assert await found("train.py") is None
        assert await found("@2") is None
        await live.answer(2, "loss")
        assert await found("@2") == [6]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("help", {}),
        ("attach 5", {}),
        ("exec 5 -- rm -rf /", {}),
        ("kill", {}),
        ("where 99", {}),
        ("where", {"keys": ["gone"]}),
        ("command all q", {}),
        ("release 5", {}),
        ("where '", {}),
    ],
)
async def test_invalid_lines_are_answered_by_a_sentence(
    approved: Approved, broker: FakeBroker, line: str, fields: dict[str, object]
) -> None:
    async with opened(broker.environment) as browser, browser.live() as live:
        answer = await live.answer(1, line, **fields)
        assert answer["type"] == "failed"
        approved(answer["sentence"])
        # The page goes on.
        assert (await live.answer(2, "where"))["type"] == "answer"


@pytest.mark.parametrize("line", CHANGING)
async def test_a_read_only_page_cannot_change_ranks(approved: Approved, broker: FakeBroker, line: str) -> None:
    async with opened(broker.environment, drive=False) as browser, browser.live() as live:
        assert (await live.until("hello"))["drive"] is False
        answer = await live.answer(1, line, yes="End gpu013:5?")
        assert answer["type"] == "failed"
        approved(answer["sentence"])
        assert (await live.answer(2, "why"))["type"] == "answer"
    actions = {item.action for item in broker.received if isinstance(item, Question)}
    assert actions <= {Action.WHERE}
    assert not any(isinstance(item, Input) for item in broker.received)


async def test_ending_a_rank_or_stopping_several_needs_confirmation(broker: FakeBroker) -> None:
    more = make_rank(8, state=RankState.RUNNING, reason=None, where=None)
    broker.ranks[more.key] = more

    async with opened(broker.environment) as browser, browser.live() as live:
        answer = await live.answer(1, "kill 5")
        assert (answer["type"], answer["question"]) == ("confirm", "End gpu013:5?")
        assert not any(isinstance(item, Question) for item in broker.received)
        assert (await live.answer(1, "kill 5", yes="End gpu013:5?"))["type"] == "answer"
        assert (await live.answer(2, "interrupt 7"))["type"] == "answer"
        agreed = await live.answer(3, "interrupt running")
        assert agreed["type"] == "confirm"
        # What was agreed to was about other ranks than those that fit now.
        broker.send_all(Change(rank=changed(make_rank(6), state=RankState.RUNNING)))
        await live.until("change")
        assert (await live.answer(4, "interrupt running", yes=agreed["question"]))["type"] == "confirm"


def second_job(**changes: object) -> RankInfo:
    return make_rank(5, job="second", key="second/0.0/gpu013:5/9005", pid=9005, **changes)


async def test_the_job_must_be_named_if_there_are_two(approved: Approved, broker: FakeBroker) -> None:
    broker.ranks[second_job().key] = second_job()

    async with opened(broker.environment) as browser, browser.live() as live:
        approved((await live.answer(1, "kill second/5"))["question"])
        approved((await live.answer(2, "loss"))["sentence"])
        approved((await live.answer(3, "command n"))["sentence"])
        assert asked_count(await live.answer(4, "second/all loss")) == 1
        # What a verdict on a job offers is about ranks of that job.
        await live.answer(5, "continue 5", job="second")
        await live.answer(6, "continue 6", job="second")
    asked = [item.keys for item in broker.received if isinstance(item, Question) and item.action is Action.CONTINUE]
    assert asked == [(second_job().key,)]


async def test_an_expression_is_evaluated_live_if_no_rank_is_stopped(broker: FakeBroker) -> None:
    for rank in list(broker.ranks.values()):
        broker.ranks[rank.key] = changed(rank, state=RankState.RUNNING, where=None)

    async with opened(broker.environment) as browser, browser.live() as live:
        for number, (line, fields) in enumerate(
            [("loss", {}), ("eval --live loss", {}), ("loss", {"keys": [make_rank(5).key]}), ("5 loss", {})]
        ):
            assert (await live.answer(number, line, **fields))["type"] == "answer"
        questions = [item for item in broker.received if isinstance(item, Question) and item.action is Action.EVAL]
        assert [(len(item.keys), item.live) for item in questions] == [(3, True), (3, True), (1, True), (1, True)]


async def test_a_verb_that_only_a_shell_has_is_an_expression_in_the_page(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.live() as live:
        for number, name in enumerate(("config", "run", "log", "report", "web")):
            await live.answer(number, name)
    texts = [item.text for item in broker.received if isinstance(item, Question)]
    assert texts == ["config", "run", "log", "report", "web"]


async def test_continue_withdraws_a_pending_stop(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.live() as live:
        assert asked_count(await live.answer(1, "continue")) == 2
        for key in (make_rank(5).key, make_rank(6).key):
            broker.send_all(Change(rank=changed(broker.ranks[key], state=RankState.RUNNING, where=None)))
        await live.until("change", lambda message: any(row["rank"] == 6 for row in message["rows"]))
        assert asked_count(await live.answer(2, "continue")) == 3
    asked = [item for item in broker.received if isinstance(item, Question) and item.action is not Action.WHERE]
    assert [(item.action, item.withdrawn, len(item.keys)) for item in asked] == [
        (Action.INTERRUPT, True, 1),
        (Action.CONTINUE, False, 2),
        (Action.INTERRUPT, True, 3),
    ]


async def test_unasked_ranks_are_not_reported_as_missing(broker: FakeBroker) -> None:
    for rank in list(broker.ranks.values()):
        broker.ranks[rank.key] = changed(rank, world_size=9)
    gone = make_rank(8, state=RankState.EXITED, exit=1, where=None, world_size=9)
    broker.ranks[gone.key] = gone
    chosen = [make_rank(5).key, make_rank(6).key]

    async with opened(broker.environment) as browser, browser.live() as live:
        assert "never" not in (await live.answer(1, "list", keys=chosen))["text"]
        assert "exited" not in (await live.answer(2, "loss", keys=chosen))["summary"]
        assert "0-4 never" in (await live.answer(3, "list"))["text"]
        assert "8 exited" in (await live.answer(4, "where"))["summary"]
    async with opened(broker.environment, target="5-6") as browser, browser.live() as live:
        assert "never" not in (await live.answer(1, "list"))["text"]
        assert "exited" not in (await live.answer(2, "where"))["summary"]


async def test_an_answer_names_its_target_ranks(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.live() as live:
        chosen = [make_rank(6).key]
        lines = ("where all", "where", "where 5-6", "where")
        fields: list[dict[str, object]] = [{"keys": chosen}, {"keys": chosen}, {}, {}]
        named = [
            (await live.answer(number, line, **field))["whom"]
            for number, (line, field) in enumerate(zip(lines, fields, strict=True))
        ]
        assert named == ["all ranks", "", "5-6", ""]


async def test_a_question_can_be_withdrawn(broker: FakeBroker) -> None:
    broker.silent = {Question}

    async with opened(broker.environment) as browser, browser.live() as live:
        await live.send("ask", id=1, line="where")
        await live.send("withdraw", id=1)
        assert (await live.until("failed"))["sentence"] == "cancelled"


async def test_a_refusal_of_the_broker_is_shown(broker: FakeBroker) -> None:
    broker.refusals[Question] = Refusal(code=RefusalCode.ROLE, text="a watcher's token lets a terminal look only")

    async with opened(broker.environment) as browser, browser.live() as live:
        assert "look only" in (await live.answer(1, "eval loss"))["sentence"]


async def test_a_page_that_breaks_the_protocol_is_disconnected(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser:
        for text in ("{", "null", json.dumps({"type": "take"})):
            async with browser.live() as live:
                await live.rows()
                await live.socket.send_str(text)
                assert await live.until_end() == 1008
        async with browser.live() as live:
            await live.socket.send_bytes(b"x")
            assert await live.until_end() == 1008


async def test_a_page_receives_the_full_state_and_then_changes(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.live() as live:
        hello = await live.until("hello")
        assert (hello["drive"], hello["target"]) == (True, "")
        assert set(await live.rows()) == {5, 6, 7}
        rank = make_rank(7, coordinates=(Coordinate(axis="tp", index=3),))
        broker.ranks[rank.key] = rank
        broker.send_all(Change(rank=rank))
        axes = await live.until("job", lambda message: bool(message["axes"]))
        assert axes["axes"] == [{"name": "tp", "size": 4}]
        change = await live.until("change")
        assert [(row["rank"], row["state"]) for row in change["rows"]] == [(7, "stopped")]
        broker.send_all(Gone(key=rank.key))
        assert (await live.until("change", lambda message: bool(message["gone"])))["gone"] == [rank.key]


async def test_all_open_pages_receive_the_same_text(broker: FakeBroker) -> None:
    async with (
        served(broker.environment) as (base, access, server),
        browser_at(base, access.new_token()) as browser,
        browser.live() as one,
    ):
        async with browser.live() as two:
            await asyncio.gather(one.rows(), two.rows())
            assert len(server.feed.pages) == 2
            broker.send_all(Change(rank=changed(make_rank(5), state=RankState.RUNNING)))
            first, second = await asyncio.gather(one.until("change"), two.until("change"))
            assert first == second
        broker.send_all(Change(rank=make_rank(5)))
        await one.until("change")
        number = 0
        while len(server.feed.pages) > 1:
            number += 1
            await one.answer(number, "list")


async def test_a_page_with_a_target_shows_only_its_ranks(broker: FakeBroker) -> None:
    async with opened(broker.environment, target="5-6") as browser, browser.live() as live:
        assert (await live.until("hello"))["target"] == "5-6"
        assert set(await live.rows()) == {5, 6}
        assert asked_count(await live.answer(1, "where")) == 2


async def test_a_lost_and_a_restored_broker_connection_are_reported(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.live() as live:
        await live.rows()
        broker.cut()
        assert (await live.until("link"))["up"] is False
        assert (await live.until("link", lambda message: bool(message["up"])))["reason"] == ""
        # The same ranks are no news.
        assert not any(message["type"] == "change" for message in live.messages)
        assert (await live.answer(1, "where"))["type"] == "answer"


class SlowSocket:
    """A socket that takes something only while it is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.sent: list[str | bytes] = []
        self.closed: tuple[int, bytes] | None = None

    async def send_str(self, text: str) -> None:
        await self.open.wait()
        self.sent.append(text)

    async def send_bytes(self, data: bytes) -> None:
        await self.open.wait()
        self.sent.append(data)

    async def close(self, *, code: int, message: bytes) -> None:
        self.closed = code, message


def outbox(socket: SlowSocket, abort: Callable[[], Any] = lambda: None, most: int = 10_000) -> Outbox:
    return Outbox(cast(WebSocketResponse, socket), abort, most)


def test_all_messages_are_sent_in_order_before_the_close() -> None:
    async def work() -> None:
        socket = SlowSocket()
        box = outbox(socket)
        box.send(Bell())
        box.put(b"key")
        box.finish(4000, "over \x1b[2J")
        box.put(b"too late")
        socket.open.set()
        await box.run()
        assert socket.sent == ['{"type":"bell"}', b"key"]
        assert socket.closed == (4000, b"over \\x1b[2J")

    asyncio.run(work())


def test_a_page_that_does_not_read_is_disconnected() -> None:
    async def work() -> None:
        socket, aborted = SlowSocket(), asyncio.Event()
        box = outbox(socket, aborted.set, most=10 * (100 + COST))
        sending = asyncio.create_task(box.run())
        for _ in range(11):
            assert not aborted.is_set()
            box.put(b"x" * 100)
        assert aborted.is_set()
        assert box.is_over
        box.put(b"more")
        socket.open.set()
        await sending
        assert socket.sent == []
        assert socket.closed is None

    asyncio.run(work())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(
            (LIVE, text)
            for text in (
                "",
                "{",
                "[" * 5000,
                "null",
                '{"type":"ask","id":-1,"line":"where"}',
                '{"type":"ask","id":1,"line":"\\ud800"}',
                json.dumps({"type": "ask", "id": 1, "line": "x" * (MAX_TEXT + 1)}),
                json.dumps({"type": "ask", "id": 1, "line": "where", "keys": ["k"] * (MAX_RANKS + 1)}),
                json.dumps({"type": "ask", "id": 1, "line": "where", "keys": ["k" * 1001]}),
            )
        ),
        *(
            (TERMINAL, text)
            for text in (
                '{"type":"ask","id":1,"line":"where"}',
                '{"type":"size","rows":0,"columns":80}',
                '{"type":"reply","prompt":-2,"text":"n"}',
            )
        ),
    ],
)
def test_invalid_messages_of_a_page_are_refused(kind: Any, text: str) -> None:
    with pytest.raises(PeerError):
        read(kind, text)
