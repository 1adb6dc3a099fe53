"""NCCL's RAS as a guard asks it, played by a server on the loopback."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.guard import ras
from dbg_agent.guard.ras import NoRas, ask_ras, parse_reply
from dbg_wire.errors import PeerError
from dbg_wire.records.beside import (
    OperationCount,
    RasCommunicator,
    RasProcess,
    RasRank,
)
from tests.conftest import Approved
from tests.support.ras_replies import TEXT, Replies, missing, playing, rank, reply

USUAL: Replies = {
    "CLIENT": b"SERVER PROTOCOL 2\n",
    "TIMEOUT": b"OK\n",
    "SET": b"OK\n",
    "VERBOSE": reply(([rank(0)], [missing(1)])).encode(),
}


async def asked(replies: Replies, seconds: float = 5.0) -> str:
    async with playing(replies, []) as environ:
        try:
            return f"{(await ask_ras(environ, seconds)).seen.version} told"
        except NoRas as error:
            return str(error)


async def test_the_status_is_asked_for_in_json() -> None:
    heard: list[str] = []
    async with playing(USUAL, heard) as environ:
        status = await ask_ras(environ, 5.0)
    assert heard == ["CLIENT PROTOCOL 2", "TIMEOUT 4", "SET FORMAT json", "VERBOSE STATUS"]
    assert [(one.rank, one.state) for one in status.ranks] == [(1, "unresponsive"), (0, "running")]


@pytest.mark.parametrize(
    "replies",
    [
        {**USUAL, "SET": b"ERROR: Unknown command SET FORMAT json\n", "VERBOSE": TEXT.encode()},
        {**USUAL, "CLIENT": b"220 smtp ready\n"},
        {**USUAL, "VERBOSE": b"nonsense"},
        {**USUAL, "TIMEOUT": b""},
        {**USUAL, "CLIENT": b"x" * 5000 + b"\n"},
        {**USUAL, "CLIENT": b"x" * 100_000 + b"\n"},
        {name: said for name, said in USUAL.items() if name != "TIMEOUT"},
        {**USUAL, "VERBOSE": b"x" * 1001},
    ],
    ids=["older", "mail", "nonsense", "empty", "long", "endless line", "silent", "endless"],
)
async def test_another_program_at_that_port_is_told_and_an_older_one_understood(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, replies: Replies
) -> None:
    monkeypatch.setattr(ras, "MAX_REPLY", 10_000 if replies["VERBOSE"] != b"x" * 1001 else 1000)
    approved(await asked(replies, 5.0 if "TIMEOUT" in replies else 0.3))


NAME = "a1349768e9517ed7"


@pytest.mark.parametrize("comma", [True, False])
def test_a_reply_in_json_tells_who_is_missing(comma: bool) -> None:
    text = reply(([rank(0), rank(2, count=3)], [missing(1), missing(3, dead=True)]), comma=comma)
    if not comma:
        with pytest.raises(ValueError, match="delimiter"):
            json.loads(text)
    status = parse_reply(text)
    assert (status.seen.version, status.seen.timeouts) == ("2.28.9", 1)
    assert status.communicators == (RasCommunicator(name=NAME, size=4, missing=2),)
    found = {one.rank: one for one in status.ranks}
    assert {number: one.state for number, one in found.items()} == {
        0: "running",
        1: "unresponsive",
        2: "running",
        3: "dead",
    }
    assert found[2] == RasRank(
        communicator=NAME,
        rank=2,
        state="running",
        host="10.0.0.1",
        pid=32,
        device="2",
        counts=(OperationCount(name="Broadcast", count=0), OperationCount(name="AllReduce", count=3)),
    )


def test_a_reply_in_text_tells_the_same_of_what_is_odd() -> None:
    status = parse_reply(TEXT)
    assert (status.seen.version, status.seen.timeouts) == ("2.27.5", 2)
    name = "27a079b828ff1a75"
    assert status.communicators == (RasCommunicator(name=name, size=None, missing=1),)
    told = [(one.rank, one.state, one.host, one.pid, one.device, one.counts) for one in status.ranks]
    launched = tuple((OperationCount(name="AllReduce", count=count),) for count in (6650, 6649))
    assert told == [
        (3, "unresponsive", "10.0.0.2", 4711, "1", ()),
        (1, "aborted", "10.0.0.1", 31, "1", ()),
        (0, "", "10.0.0.1", 30, "0", launched[0]),
        (1, "", "10.0.0.1", 31, "1", launched[0]),
        (2, "", "10.0.0.2", 32, "0", launched[1]),
    ]
    assert status.processes == (
        RasProcess(state="unresponsive", pid=4711, host="10.0.0.2"),
        RasProcess(state="dead", pid=4712, host="10.0.0.3"),
    )


@given(
    st.text(max_size=200) | st.sampled_from(['{"communicators": 1}', '{"communicators": [{"hash": 1}]}', "[" * 9000])
)
def test_what_is_no_reply_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(PeerError):
        parse_reply(text)
