"""NCCL's RAS as a guard asks it, played by a server on the loopback."""

from __future__ import annotations

import socket

import pytest

from dbg_agent.guard import ras
from dbg_agent.guard.ras import NoRas, address_of, ask_ras
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


async def test_an_older_one_replies_in_text() -> None:
    old = {**USUAL, "SET": b"ERROR: Unknown command SET FORMAT json\n", "VERBOSE": TEXT.encode()}
    assert await asked(old) == "2.27.5 told"


@pytest.mark.parametrize(
    "replies",
    [
        {**USUAL, "CLIENT": b"220 smtp ready\n"},
        {**USUAL, "VERBOSE": b"nonsense"},
        {**USUAL, "TIMEOUT": b""},
        {**USUAL, "CLIENT": b"x" * 5000 + b"\n"},
        {**USUAL, "CLIENT": b"x" * 100_000 + b"\n"},
    ],
)
async def test_another_program_at_that_port_is_told(approved: Approved, replies: Replies) -> None:
    approved(await asked(replies))


async def test_one_that_is_silent_costs_no_more_than_the_time(approved: Approved) -> None:
    silent = {name: said for name, said in USUAL.items() if name != "TIMEOUT"}
    approved(await asked(silent, 0.3))


async def test_a_reply_without_end_is_not_read_to_its_end(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "MAX_REPLY", 100)
    approved(await asked(USUAL))


async def test_nobody_there_says_what_may_be_the_reason() -> None:
    # A port that is taken, and on which nobody listens.
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    with (
        taken,
        pytest.raises(NoRas, match=r"^no NCCL with RAS is at 127.0.0.1:\d+ \(.*\): it is there from NCCL 2.24 on"),
    ):
        await ask_ras({"NCCL_RAS_ADDR": f"127.0.0.1:{taken.getsockname()[1]}"}, 5.0)


def test_the_address_is_what_nccl_takes_for_it() -> None:
    assert address_of({}) == ("localhost", 28028)
    assert address_of({"NCCL_RAS_ADDR": "[::1]:5"}) == ("::1", 5)
    for text in ("host", ":5", "host:x", "host:0", "host:99999"):
        with pytest.raises(NoRas, match="not host:port"):
            address_of({"NCCL_RAS_ADDR": text})
