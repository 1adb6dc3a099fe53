"""Requests that need no rank: the order of a session, what is refused, and how many may be open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from dbg_client.core.link import BrokerLink
from dbg_client.core.switchboard import Switchboard
from dbg_client.faces.dap.adapter import MAX_OPEN, Adapter
from dbg_client.faces.dap.messages import Message, Request
from dbg_wire.errors import BadInput, BrokerUnreachable
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.client.faces.dap.shown import Shown
from tests.unit.client.scripted_link import ScriptedLink


class NoBroker(ScriptedLink):
    """A broker that is not there."""

    async def open(self) -> None:
        raise BrokerUnreachable("wss://there", "nobody answers")


class SilentBroker(ScriptedLink):
    """A broker that never answers."""

    async def open(self) -> None:
        await asyncio.Event().wait()


def held(talk: Callable[[Adapter, Shown], Awaitable[None]], link: type[ScriptedLink] = NoBroker) -> None:
    """Have a talk with an adapter on this link."""

    async def hold() -> None:
        said = Shown()
        made = cast("BrokerLink", link())
        adapter = Adapter(lambda name: Switchboard(lambda: made, seconds(10)), None, said.take)
        await talk(adapter, said)
        await adapter.close()

    asyncio.run(hold())


async def ask(adapter: Adapter, said: Shown, seq: int, command: str, **arguments: object) -> Message:
    """Return the response."""
    adapter.receive(Request(seq, command, arguments))
    return await said.answer(seq)


@pytest.mark.parametrize("command", ["threads", "evaluate", "configurationDone", "no such\x1b request"])
def test_nothing_is_answered_before_the_window_is_attached(command: str) -> None:
    async def talk(adapter: Adapter, said: Shown) -> None:
        answer = await ask(adapter, said, 1, command)
        assert (answer["success"], answer["message"]) == (False, "this window is not attached; send `attach` first")

    held(talk)


def test_what_a_window_does_not_do_is_refused_with_what_does_it(approved: Approved) -> None:
    async def talk(adapter: Adapter, said: Shown) -> None:
        assert "attach" in (await ask(adapter, said, 1, "launch"))["message"]
        approved((await ask(adapter, said, 2, "terminate"))["message"])
        assert (await ask(adapter, said, 3, "initialize", clientName="x"))["body"]["supportsConfigurationDoneRequest"]

    held(talk)


def test_a_broker_that_is_not_there_is_an_answer_that_the_user_sees_and_the_ide_may_try_again() -> None:
    async def talk(adapter: Adapter, said: Shown) -> None:
        for seq in (1, 2):
            answer = await ask(adapter, said, seq, "attach", target="all")
            assert "nobody answers" in answer["message"]
            assert answer["body"]["error"]["showUser"]
        wrong = await ask(adapter, said, 3, "attach", target="0-")
        assert "0-" in wrong["message"]
        assert not said.named("initialized")

    held(talk)


def test_who_is_not_admitted_does_not_reach_the_broker() -> None:
    def refuse(arguments: Message) -> None:
        raise BadInput("the secret is wrong", "look at the terminal")

    async def talk() -> None:
        said = Shown()
        adapter = Adapter(lambda name: pytest.fail("dialled"), None, said.take, refuse)
        assert "the secret is wrong" in (await ask(adapter, said, 1, "attach"))["message"]

    asyncio.run(talk())


def test_a_request_can_be_cancelled_and_an_end_cancels_all() -> None:
    async def talk(adapter: Adapter, said: Shown) -> None:
        adapter.receive(Request(1, "attach", {}))
        adapter.receive(Request(2, "attach", {}))
        assert (await ask(adapter, said, 3, "cancel", requestId=1))["success"]
        assert (await said.answer(1))["message"] == "cancelled"
        await adapter.close()
        assert (await said.answer(2))["message"] == "cancelled"

    held(talk, SilentBroker)


def test_every_request_is_answered_whatever_fails(approved: Approved) -> None:
    async def talk(adapter: Adapter, said: Shown) -> None:
        assert (await ask(adapter, said, 1, "cancel", requestId=[1]))["success"]
        adapter.receive(Request(2, "initialize", [1]))
        assert "the arguments of initialize are no object" in (await said.answer(2))["message"]

    held(talk)

    async def fail() -> None:
        said = Shown()
        adapter = Adapter(lambda name: cast("Switchboard", 1 // 0), None, said.take)
        answer = await ask(adapter, said, 1, "attach")
        approved(answer["message"])

    asyncio.run(fail())


def test_too_many_open_requests_are_refused() -> None:
    async def talk(adapter: Adapter, said: Shown) -> None:
        for seq in range(MAX_OPEN + 1):
            adapter.receive(Request(seq, "attach", {}))
        assert [(one["request_seq"], one["success"]) for one in said.said] == [(MAX_OPEN, False)]

    held(talk, SilentBroker)


def test_a_disconnect_ends_the_session_after_its_answer() -> None:
    async def talk(adapter: Adapter, said: Shown) -> None:
        assert (await ask(adapter, said, 1, "disconnect"))["success"]
        assert adapter.ended.is_set()

    held(talk)
