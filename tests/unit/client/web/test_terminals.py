"""Tests of terminals in a page, at a scripted broker."""

from __future__ import annotations

import pytest

from dbg_wire.limits import MAX_COLUMNS
from dbg_wire.messages import (
    Attach,
    Interrupt,
    Mode,
    Notice,
    PromptState,
    Refusal,
    RefusalCode,
    Reply,
    Report,
    Resize,
    Take,
)
from tests.support.pages import opened
from tests.unit.client.fake_broker import FakeBroker, make_prompt, make_rank, make_report

KEY = make_rank(5).key


async def test_keys_are_sent_and_drawing_output_is_shown(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        state = await terminal.until("state", lambda message: message["driving"])
        assert (state["kind"], state["engine"]) == ("screen", "pudb")
        await terminal.until_bytes(b"PUDB SCREEN")
        attach = await broker.heard(Attach)
        assert (attach.key, attach.mode, attach.rows, attach.columns) == (KEY, Mode.DRIVE, 24, 80)
        await terminal.socket.send_bytes(b"nn\x03")
        while broker.typed() != b"nn\x03":
            await terminal.next()
        # A question to the terminal, a new title and the clipboard are none of the rank's business.
        broker.draw(b"\x1b[c\x1b]0;title\x07\x1b]52;c;eA==\x07\x1b[31mred")
        await terminal.until_bytes(b"red")
        assert b"SCREEN\x1b[31mred" in terminal.bytes
        await terminal.send("size", rows=50, columns=132)
        assert (await broker.heard(Resize)).columns == 132


async def test_a_read_only_page_cannot_type(broker: FakeBroker) -> None:
    async with opened(broker.environment, drive=False) as browser, browser.terminal(KEY, "take") as terminal:
        await terminal.until_bytes(b"PUDB SCREEN")
        await terminal.socket.send_bytes(b"q")
        await terminal.until("bell")
        for kind, fields in (
            ("take", {}),
            ("release", {}),
            ("stop", {}),
            ("endofinput", {}),
            ("reply", {"prompt": 1, "text": "q"}),
        ):
            await terminal.send(kind, **fields)
            await terminal.until("bell")
        notices = [
            message["notice"] for message in terminal.messages if message["type"] == "state" and message["notice"]
        ]
        assert "read-only" in notices[-1]
    assert [item.mode for item in broker.received if isinstance(item, Attach)] == [Mode.WATCH]
    assert not any(isinstance(item, (Take, Reply, Interrupt)) for item in broker.received)
    assert broker.typed() == b""


async def test_a_page_replies_to_a_prompt_of_pdb(broker: FakeBroker) -> None:
    broker.report(make_prompt(1), KEY)

    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        prompt = await terminal.until("prompt")
        assert (prompt["number"], prompt["text"], prompt["state"]) == (1, "(Pdb) ", "command")
        assert (await terminal.once("state", lambda message: message["kind"] == "lines"))["engine"] == "pdb"
        await terminal.send("reply", prompt=1, text="p loss")
        reply = await broker.heard(Reply)
        assert (reply.prompt, reply.text) == (1, "p loss")
        broker.take(make_prompt(1), "p loss", "0.25\n\x1b]0;title\x07")
        await terminal.until_bytes(b"0.25\r\n")
        assert b"title" not in terminal.bytes
        assert (await terminal.until("prompt", lambda message: message["number"] == 2))["held"] == 0
        # A line for a prompt that was not seen waits for the next one; there is one already.
        await terminal.send("reply", prompt=-1, text="n")
        assert (await broker.heard(Reply, 2)).text == "n"


async def test_notes_are_shown_at_a_prompt_of_pdb(broker: FakeBroker) -> None:
    broker.report(make_prompt(1), KEY)

    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        await terminal.until("prompt")
        broker.send_all(Notice(text="alice evaluated loss"))
        assert (await terminal.until("note"))["text"] == "alice evaluated loss"
        broker.report(make_prompt(2, state=PromptState.MORE), KEY)
        assert (await terminal.until("prompt", lambda message: message["number"] == 2))["state"] == "more"
        await terminal.send("stop")
        await broker.heard(Interrupt)


async def test_keys_are_not_sent_to_pdb(broker: FakeBroker) -> None:
    broker.report(make_prompt(1), KEY)

    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        await terminal.until("prompt")
        await terminal.socket.send_bytes(b"q\n")
        await terminal.until("bell")
        assert broker.typed() == b""


async def test_the_keyboard_can_be_released_and_taken(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        await terminal.until("state", lambda message: message["driving"])
        await terminal.send("release")
        await terminal.until("state", lambda message: not message["driving"])
        assert (await broker.heard(Attach, 2)).mode is Mode.WATCH
        # The keyboard can be taken once the seat is there.
        await terminal.until("clear")
        await terminal.send("take")
        await broker.heard(Take)
        await terminal.until("state", lambda message: message["driving"])


async def test_a_page_watches_while_another_terminal_drives(broker: FakeBroker) -> None:
    broker.driver = "bob@login1"

    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        state = await terminal.until("state", lambda message: message["driver"] == "bob@login1")
        assert not state["driving"]
        await terminal.socket.send_bytes(b"n")
        await terminal.until("bell")
        assert "you only watch" in (await terminal.until("state"))["notice"]


async def test_a_resumed_rank_ends_the_seat(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        await terminal.until_bytes(b"PUDB SCREEN")
        broker.send_all(Report(report=make_report(None)))
        await terminal.until("ended")
        assert await terminal.until_end() == 4000


async def test_the_reason_for_a_refused_seat_is_shown(broker: FakeBroker) -> None:
    broker.refusals[Attach] = Refusal(code=RefusalCode.FULL, text="rank gpu013:5 has 64 terminals, the maximum")

    async with opened(broker.environment) as browser:
        async with browser.terminal("no/such/key") as terminal:
            assert "no such rank" in (await terminal.until("ended"))["sentence"]
            assert await terminal.until_end() == 4004
        async with browser.terminal(KEY) as terminal:
            assert "64 terminals" in (await terminal.until("ended"))["sentence"]
            assert await terminal.until_end() == 4001
    # A page for some ranks opens no others.
    async with opened(broker.environment, target="6") as browser, browser.terminal(KEY) as terminal:
        assert await terminal.until_end() == 4004


async def test_a_broken_link_to_the_rank_is_shown_and_restored(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.terminal(KEY) as terminal:
        await terminal.until("state", lambda message: message["driving"])
        broker.cut()
        state = await terminal.until("state", lambda message: bool(message["link"]))
        assert "broker gone" in state["link"]
        await terminal.socket.send_bytes(b"n")
        await terminal.until("state", lambda message: message["driving"] and not message["link"])
        while broker.typed() != b"n":
            await terminal.next()


@pytest.mark.parametrize("text", ['{"type":"take"}', '{"type":"size","rows":0,"columns":80}', "[]"])
async def test_a_page_that_breaks_the_protocol_is_disconnected(broker: FakeBroker, text: str) -> None:
    async with opened(broker.environment) as browser, browser.terminal(KEY, size=None) as terminal:
        await terminal.socket.send_str(text)
        assert await terminal.until_end() == 1008


async def test_an_oversized_terminal_is_refused(broker: FakeBroker) -> None:
    async with opened(broker.environment) as browser, browser.terminal(KEY, size=(24, MAX_COLUMNS + 1)) as terminal:
        assert await terminal.until_end() == 1008
