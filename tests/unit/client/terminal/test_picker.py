from __future__ import annotations

import asyncio
from typing import cast

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dbg_client.core.brokers import Brokers
from dbg_client.core.choose import Choice
from dbg_client.core.directory import Directory
from dbg_client.core.switchboard import Switchboard
from dbg_client.terminal.answering import Answering
from dbg_client.terminal.picker import Picker
from dbg_wire.codec import Input
from dbg_wire.errors import DbgError
from dbg_wire.messages import Change, Gone, Kind, Message, Question, RankAnswer, Snapshot
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.answers import answered
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
    switchboard = Switchboard(lambda: cast("Brokers", ScriptedLink(up=False)), 1.0)
    switchboard.directory = known
    return switchboard


async def pick(keys: str, known: Directory, typed_ahead: bytes = b"") -> tuple[int | None, bytes, bool]:
    """Return the rank picked by ``keys``, the keys for the session, and whether Ctrl-C ended the picker."""
    with create_pipe_input() as source:
        source.send_text(keys)
        answering = Answering(_without_broker(known))
        picker = Picker(known, "ws://x", answering, color=False, prefix=b"\x1d", source=source, screen=Screen())
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
        ("\x1b", None),
        ("/:1\x7f\x7f:1\r", 1),
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


async def test_what_was_typed_ahead_comes_first_and_what_is_left_is_given_back() -> None:
    picked, unused, _ = await pick("", directory(), "j\rnn\x1b[Aé".encode())

    assert (picked, unused) == (1, "nn\x1b[Aé".encode())


RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None)


class Broker(ScriptedLink):
    """Answer each question at once: the rank can't be stopped yet."""

    def __init__(self) -> None:
        super().__init__()
        self._switchboard = Switchboard(lambda: cast("Brokers", self), 1.0)
        self.directory = self._switchboard.directory
        self.directory.receive(Snapshot(ranks=(RUNNING,), last=True))
        self.answering = Answering(self._switchboard)

    def send(self, item: Message | Input) -> bool:
        is_sent = super().send(item)
        if isinstance(item, Question):
            answers = tuple(RankAnswer(key=key, kind=Kind.RUNNING, text="in C code") for key in item.keys)
            self.events.put_nowait(answered(item.request, *answers))
        return is_sent

    async def __aenter__(self) -> Broker:
        await self._switchboard.dial()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._switchboard.close()


async def test_a_rank_that_stops_later_is_returned_as_it_is_then() -> None:
    async with Broker() as broker:
        stopping = asyncio.ensure_future(broker.answering.break_in(RUNNING))
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
async def test_a_rank_that_ends_instead_is_told(approved: Approved, news: Message) -> None:
    async with Broker() as broker:
        stopping = asyncio.ensure_future(broker.answering.break_in(RUNNING))
        broker.events.put_nowait(news)
        with pytest.raises(DbgError) as ended:
            await asyncio.wait_for(stopping, seconds(10))
        approved(str(ended.value))


async def test_a_break_in_that_is_given_up_is_withdrawn() -> None:
    async with Broker() as broker:
        stopping = asyncio.ensure_future(broker.answering.break_in(RUNNING))
        for _ in range(10):  # it asks, is answered, and waits for the list
            await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping], timeout=seconds(10))

        assert [question.withdrawn for question in broker.sent] == [False, True]
