"""Tests of what a page asks, over a real socket and a broker that answers as it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from dbg_client.faces.web.live import MAX_AT_ONCE
from dbg_wire.codec import Input
from dbg_wire.messages import Action, Kind, Question, RankAnswer, Refusal, RefusalCode
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.pages import Said, Socket, opened, run
from tests.unit.client.fake_broker import FakeBroker, make_rank

CHANGING = ("eval loss", "command all n", "interrupt 7", "continue 5", "release all", "kill 5", "where --native")


def answers(broker: FakeBroker, action: Action, texts: Mapping[int, str]) -> None:
    for number, text in texts.items():
        key = make_rank(number).key
        broker.said[key] = RankAnswer(key=key, kind=Kind.VALUE, text=text, digest=f"d{text}", exact=f"e{text}")
    broker.answers[action] = RankAnswer(key="", kind=Kind.RUNNING, text="running")


def test_an_answer_is_the_document_of_json_with_the_keys_of_its_groups(broker: FakeBroker) -> None:
    answers(broker, Action.EVAL, {5: "0.25", 6: "<b>nan</b>\x1b[2J"})

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            said = await live.answer(1, "eval loss")
            assert (said["type"], said["last"]) == ("answer", True)
            groups = {group["id"]: group["text"] for group in said["document"]["groups"]}
            assert groups == {"@1": "0.25", "@2": "<b>nan</b>\x1b[2J"}
            assert said["document"]["asked"] == 2
            assert said["members"] == {"@1": [make_rank(5).key], "@2": [make_rank(6).key]}
            assert "\x1b" not in said["text"]
            # The group of the last answer is a target, for this page alone.
            assert (await live.answer(2, "eval @2 loss"))["members"] == {"@1": [make_rank(6).key]}
            async with browser.live() as other:
                assert "@2" in (await other.answer(1, "eval @2 loss"))["sentence"]

    run(work)


def test_a_line_is_about_the_ranks_it_names_else_the_chosen_else_the_usual(broker: FakeBroker) -> None:
    async def asked(live: Socket, number: int, line: str, **fields: object) -> list[str]:
        assert (await live.answer(number, line, **fields))["type"] == "answer"
        questions = [item for item in broker.received if isinstance(item, Question)]
        return [key.rpartition("/")[0].rpartition(":")[2] for key in questions[-1].keys]

    async def work() -> None:
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

    run(work)


def test_who_is_meant_is_told_where_the_page_has_chosen_nobody(broker: FakeBroker) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            lines = ("where", "loss", "eval 5 loss", "command n", "continue")
            told = [(await live.answer(number, line))["whom"] for number, line in enumerate(lines)]
            assert told == ["", "stopped,held", "5", "stopped", "stopped"]
            assert (await live.answer(9, "loss", keys=[make_rank(5).key]))["whom"] == ""

    run(work)


def test_a_set_is_found_by_what_a_target_is(broker: FakeBroker) -> None:
    answers(broker, Action.EVAL, {5: "1", 6: "2"})

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:

            async def found(text: str) -> list[int] | None:
                await live.say("find", id=1, text=text)
                while (said := await live.next()) is None or said.get("id") != 1:
                    pass
                keys = {make_rank(number).key: number for number in (5, 6, 7)}
                return [keys[key] for key in said["keys"]] if said["type"] == "found" else None

            assert await found("5-6") == [5, 6]
            assert await found("gpu*:*,!5") == [6, 7]
            assert await found("running") == [7]
            assert await found("99") == []
            assert await found("train.py") is None
            assert await found("@2") is None
            await live.answer(2, "loss")
            assert await found("@2") == [6]

    run(work)


@pytest.mark.parametrize(
    ("line", "fields", "sentence"),
    [
        ("help", {}, "`help` is not for a page"),
        ("attach 5", {}, "terminal of its own"),
        ("exec 5 -- rm -rf /", {}, "`exec` is not for a page"),
        ("eval --save /tmp/x loss", {}, "name files"),
        ("report", {}, "is not for the command line"),
        ("kill", {}, "needs ranks"),
        ("where 99", {}, "99"),
        ("where", {"keys": ["gone"]}, "none of the chosen ranks"),
        ("command all q", {}, "`q` is not for 3 ranks at once"),
        ("release 5", {}, "is not held"),
        ("continue 5", {"every": 1}, "not for again and again"),
        ("where '", {}, "quote"),
    ],
)
def test_what_can_not_be_asked_is_told_in_a_sentence(
    broker: FakeBroker, line: str, fields: dict[str, object], sentence: str
) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            said = await live.answer(1, line, **fields)
            assert said["type"] == "failed"
            assert sentence in said["sentence"]
            # The page goes on.
            assert (await live.answer(2, "where"))["type"] == "answer"

    run(work)


@pytest.mark.parametrize("line", CHANGING)
def test_a_page_that_only_looks_changes_nothing(approved: Approved, broker: FakeBroker, line: str) -> None:
    async def work() -> None:
        async with opened(broker.environment, drive=False) as browser, browser.live() as live:
            assert (await live.until("hello"))["drive"] is False
            said = await live.answer(1, line, yes=True)
            assert said["type"] == "failed"
            approved(said["sentence"])
            assert (await live.answer(2, "why"))["type"] == "answer"
        actions = {item.action for item in broker.received if isinstance(item, Question)}
        assert actions <= {Action.WHERE}
        assert not any(isinstance(item, Input) for item in broker.received)

    run(work)


def test_what_ends_or_stops_several_is_agreed_to_first(broker: FakeBroker) -> None:
    more = make_rank(8, state=RankState.RUNNING, reason=None, where=None)
    broker.ranks[more.key] = more

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            said = await live.answer(1, "kill 5")
            assert (said["type"], said["question"]) == ("confirm", "End gpu013:5?")
            assert not any(isinstance(item, Question) for item in broker.received)
            assert (await live.answer(1, "kill 5", yes=True))["type"] == "answer"
            assert (await live.answer(2, "interrupt 7"))["type"] == "answer"
            assert (await live.answer(3, "interrupt 7-8"))["type"] == "confirm"

    run(work)


def test_what_a_page_does_is_on_the_time_line_of_all(broker: FakeBroker) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live, browser.live() as other:
            await other.rows()
            await live.answer(1, "eval 5 loss")
            event = await other.until("event")
            assert (event["kind"], event["text"], event["ranks"]) == ("asked", "eval 5 loss", "5")
            assert event["who"]
            async with browser.live() as late:
                assert (await late.until("event"))["number"] == event["number"]

    run(work)


def test_again_and_again_until_it_is_given_up(broker: FakeBroker) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            await live.say("ask", id=1, line="where", every=0.1)
            for _ in range(3):
                said = await live.until("answer")
                assert (said["id"], said["last"]) == (1, False)
            await live.say("withdraw", id=1)
            assert (await live.until("failed"))["sentence"] == "given up"
            await live.answer(2, "where")
            assert sum(said["type"] == "answer" for said in live.said) >= 4

    run(work)


def test_an_answer_that_lasts_says_what_it_waits_for(approved: Approved, broker: FakeBroker) -> None:
    broker.silent = {Question}

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            await live.say("ask", id=4, line="where")
            said = await live.until("progress")
            assert said["id"] == 4
            approved(said["text"])

    run(work)


def test_too_much_at_once_and_a_number_in_use_are_refused(broker: FakeBroker) -> None:
    broker.silent = {Question}

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            for number in range(MAX_AT_ONCE):
                await live.say("ask", id=number, line="where")
            assert "with the id 0 is open" in (await live.answer(0, "where"))["sentence"]
            assert f"{MAX_AT_ONCE} questions are open" in (await live.answer(99, "where"))["sentence"]

    run(work)


def test_what_the_broker_refuses_is_told(approved: Approved, broker: FakeBroker) -> None:
    broker.refusals[Question] = Refusal(code=RefusalCode.ROLE, text="a watcher's token lets a terminal look only")

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            assert "look only" in (await live.answer(1, "eval loss"))["sentence"]
            await live.say("source", id=2, key=make_rank(5).key, file="/train.py", line=1, around=2)
            assert (await live.until("failed"))["id"] == 2
            await live.say("source", id=3, key="gone", file="/train.py", line=1, around=2)
            approved((await live.until("failed"))["sentence"])

    run(work)


def test_a_page_that_breaks_the_protocol_is_sent_away(broker: FakeBroker) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser:
            for text in ("{", "null", json.dumps({"type": "take"})):
                async with browser.live() as live:
                    await live.rows()
                    await live.socket.send_str(text)
                    assert await live.until_end() == 1008
            async with browser.live() as live:
                await live.socket.send_bytes(b"x")
                assert await live.until_end() == 1008

    run(work)


def test_the_other_answers_have_their_documents(broker: FakeBroker) -> None:
    async def documents(live: Socket) -> dict[str, Said]:
        lines = ("list", "where", "why", "collectives")
        return {line: (await live.answer(n, line))["document"] for n, line in enumerate(lines)}

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            found = await documents(live)
            assert [rank["rank"] for rank in found["list"]["ranks"]] == [5, 6, 7]
            assert found["where"]["asked"] == 3
            assert found["why"]["verdicts"]
            assert "groups" in found["collectives"]

    run(work)
