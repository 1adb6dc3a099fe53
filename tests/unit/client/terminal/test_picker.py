from __future__ import annotations

import asyncio

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dbg_client.core.directory import Directory
from dbg_client.terminal.picker import Picker
from dbg_wire.messages import Change, Snapshot
from dbg_wire.records.ranks import RankState
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import make_rank


class Screen(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=24, columns=80)


def directory(count: int = 3) -> Directory:
    known = Directory()
    known.receive(Snapshot(ranks=tuple(map(make_rank, range(count))), last=True))
    return known


async def pick(keys: str, known: Directory, typed_ahead: bytes = b"") -> tuple[int | None, bytes, bool]:
    """Return the rank picked by ``keys``, the keys for the session, and whether Ctrl-C ended the picker."""
    with create_pipe_input() as source:
        source.send_text(keys)
        picker = Picker(known, "ws://x", source=source, screen=Screen())
        choice, unused = await asyncio.wait_for(picker.run(typed_ahead), seconds(10))
        return choice.rank.rank if choice else None, unused, picker.interrupted


@pytest.mark.parametrize(
    ("keys", "picked"),
    [
        ("\r", 0),
        ("\x1b[B\r", 1),
        ("\x1b[B\x1b[B\x1b[A\r", 1),
        (":2\r", 2),
        ("jq\x7f\x7f:1\r", 1),
        ("nothing\r\x1b\x1b", None),
        ("\x1b", None),
    ],
)
async def test_keys_pick_a_rank(keys: str, picked: int | None) -> None:
    assert (await pick(keys, directory()))[0] == picked


async def test_ctrl_c_is_distinguished_from_escape() -> None:
    assert await pick("\x03", directory()) == (None, b"", True)


async def test_a_rank_that_is_not_stopped_is_not_picked() -> None:
    known = directory(1)
    known.receive(Change(rank=make_rank(0, state=RankState.RUNNING, where=None)))

    assert (await pick("\r\x1b", known))[0] is None


async def test_keys_typed_ahead_are_used_first_and_the_rest_is_returned() -> None:
    picked, unused, _ = await pick("", directory(), "\x1b[B\rnn\x1b[Aé".encode())

    assert (picked, unused) == (1, "nn\x1b[Aé".encode())
