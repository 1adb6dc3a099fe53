from __future__ import annotations

import asyncio
from typing import cast

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.output import DummyOutput

from dbg_client.actions.in_session import Answering
from dbg_client.core.choose import Choice
from dbg_client.core.directory import Directory
from dbg_client.core.link import BrokerLink
from dbg_client.core.switchboard import Switchboard
from dbg_client.terminal.pager import Pager
from dbg_client.terminal.picker import PickActions, Picker
from dbg_wire.codec import Input
from dbg_wire.messages import Answers, Change, Gone, Kind, Message, Question, RankAnswer, Snapshot
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink


class Screen(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=24, columns=80)


def directory(count: int = 3) -> Directory:
    known = Directory()
    known.receive(Snapshot(ranks=tuple(map(make_rank, range(count))), last=True))
    return known


def _without_broker(known: Directory) -> Switchboard:
    switchboard = Switchboard(lambda: cast("BrokerLink", ScriptedLink(up=False)), 1.0)
    switchboard.directory = known
    return switchboard


async def pick(keys: str, known: Directory, typed_ahead: bytes = b"") -> tuple[int | None, bytes, bool]:
    """Return the rank picked by ``keys``, the keys for the session, and whether Ctrl-C ended the picker."""
    with create_pipe_input() as source:
        source.send_text(keys)
        actions = PickActions(Answering(_without_broker(known)), color=False)
        picker = Picker(known, "ws://x", actions, prefix=b"\x1d", source=source, screen=Screen())
        choice, unused = await asyncio.wait_for(picker.run(typed_ahead), seconds(10))
        return choice.rank.rank if choice else None, unused, picker.interrupted


@pytest.mark.parametrize(
    ("keys", "picked"),
    [
        ("\r", 0),
        ("j\r", 1),
        ("jjk\r", 1),
        ("\x1b[B\x1b[B\r", 2),
        ("\x1b[F\r", 2),
        ("\x1b[F\x1b[H\r", 0),
        ("/:2\r", 2),
        ("/jq\x7f\x7f:1\r", 1),
        ("/nothing\r\x1b:q", None),
        ("q", None),
        ("  \x1b\x1b\x1b", None),
        ("/:1\t\x7f\x7f\r", 1),
        ("?q\x1dd", None),
    ],
)
async def test_keys_pick(keys: str, picked: int | None) -> None:
    assert (await pick(keys, directory()))[0] == picked


@pytest.mark.parametrize(
    ("keys", "session", "is_interrupted"),
    [("\x03", b"", True), ("j\x1ddx", b"\x1ddx", False), ("/a\x1d:w", b"\x1d:w", False)],
)
async def test_ctrl_c_is_told_apart_and_the_prefix_is_handed_to_the_session(
    keys: str, session: bytes, is_interrupted: bool
) -> None:
    assert await pick(keys, directory()) == (None, session, is_interrupted)


@pytest.mark.parametrize("keys", ["\rqq", "\r\rq"])
async def test_a_rank_that_is_not_stopped_is_not_picked_and_is_broken_into_on_request_alone(keys: str) -> None:
    known = directory(1)
    known.receive(Change(rank=make_rank(0, state=RankState.RUNNING, where=None)))

    assert (await pick(keys, known))[0] is None


async def test_a_host_is_unfolded_where_there_are_more_ranks_than_rows() -> None:
    assert (await pick("\rj\x1b[Bj\r", directory(50)))[0] == 2
    assert (await pick("\x1b[Cjj\x1b[D\x1b[Cj\r", directory(50)))[0] == 0
    assert (await pick("/:49\r", directory(50)))[0] == 49


async def test_what_was_typed_ahead_comes_first_and_what_is_left_is_given_back() -> None:
    picked, unused, _ = await pick("", directory(), "j\rnn\x1b[Aé".encode())

    assert (picked, unused) == (1, "nn\x1b[Aé".encode())


RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None)


class Broker(ScriptedLink):
    """Answer each question at once: the rank can't be stopped yet."""

    def __init__(self) -> None:
        super().__init__()
        self._switchboard = Switchboard(lambda: cast("BrokerLink", self), 1.0)
        self.directory = self._switchboard.directory
        self.directory.receive(Snapshot(ranks=(RUNNING,), last=True))
        self.actions = PickActions(Answering(self._switchboard), color=False)

    def send(self, item: Message | Input) -> bool:
        is_sent = super().send(item)
        if isinstance(item, Question):
            answers = tuple(RankAnswer(key=key, kind=Kind.RUNNING, text="in C code") for key in item.keys)
            self.events.put_nowait(Answers(request=item.request, answers=answers, last=True))
        return is_sent

    async def __aenter__(self) -> Broker:
        await self._switchboard.dial()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._switchboard.close()


async def test_a_rank_that_stops_later_is_returned_as_it_is_then() -> None:
    async with Broker() as broker:
        stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
        stopped = make_rank(5)
        broker.events.put_nowait(Change(rank=stopped))

        assert (await asyncio.wait_for(stopping, seconds(10))).choice == Choice(stopped, is_broken_into=True)


@pytest.mark.parametrize(
    "news",
    [
        Change(rank=make_rank(5, state=RankState.EXITED, exit=1)),
        Change(rank=make_rank(5, state=RankState.LOST)),
        Gone(key=RUNNING.key),
    ],
)
async def test_a_rank_that_ends_instead_is_a_page(approved: Approved, news: Message) -> None:
    async with Broker() as broker:
        stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
        broker.events.put_nowait(news)
        approved((await asyncio.wait_for(stopping, seconds(10))).text)


async def test_a_break_in_that_is_given_up_is_withdrawn() -> None:
    async with Broker() as broker:
        stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
        for _ in range(10):  # it asks, is answered, and waits for the list
            await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping], timeout=seconds(10))

        assert [question.withdrawn for question in broker.sent] == [False, True]


async def for_the_session(keys: str) -> bytes:
    """Return the keys that the session gets when the pager has ended; nothing may be left behind."""
    with create_pipe_input() as source:
        source.send_text(keys)
        pager = Pager("".join(f"line {number}\n" for number in range(60)), source, Screen(), b"\x1d")
        keys_left = await asyncio.wait_for(pager.run(), seconds(10))
        assert get_typeahead(source) == []
        return keys_left


@pytest.mark.parametrize(
    ("keys", "session"),
    [
        ("\x1dd", b"\x1dd"),
        ("\x1dnx", b"\x1dnx"),
        ("zz\x1d:where\r", b"\x1d:where\r"),
        (":where\r", b"\x1d:where\r"),
        ("qzz\x1dd", b"\x1dd"),
        ("j\x1b[B\x1b[6~Gbqrest", b""),
        ("\x1d]q", b""),
        ("\x1d\x1b[Aq", b""),
        ("/:q\r\x1dd", b"\x1dd"),
        ("/q\x7fx\x1dd", b"\x1dd"),
        ("\x1b[200~e all rank\nq\n\x1b[201~\x1dd", b"\x1dd"),
    ],
)
async def test_the_prefix_and_a_colon_are_for_the_session(keys: str, session: bytes) -> None:
    assert await for_the_session(keys) == session
