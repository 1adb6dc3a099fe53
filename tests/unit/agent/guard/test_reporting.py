"""The end of a guard that nobody hears; what it says otherwise is seen through test_guard."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

import pytest

from dbg_agent.guard import reporting
from dbg_agent.guard.dumps import BEAT, MARK
from dbg_agent.guard.reporting import Witness
from dbg_agent.guard.watched import Ancestor, Memory
from dbg_wire.finding.endpoint import Endpoint, Reach
from tests.support.reach import PIN


class Killed:
    """A process that a signal has ended."""

    pid = 2**22
    descriptor = -1
    memory = Memory(2**22)
    above: tuple[Ancestor, ...] = ()

    def is_alive(self) -> bool:
        return False

    def is_suspended(self) -> bool:
        return False

    def status(self) -> int:
        return 9


def dials_in_vain(monkeypatch: pytest.MonkeyPatch, reach: Reach | None = None, said: bytes = b"") -> list[Reach]:
    """Have a guard report the end of its rank to nobody; return how it dialled each time."""
    attempts: list[Reach] = []

    async def find(*_: object) -> Reach | None:
        return reach

    async def dial(reach: Reach, *_: object) -> None:
        attempts.append(reach)
        # A guard that goes on for ever must fail this test, and not keep it waiting.
        if len(attempts) > 500:
            raise SystemExit("the guard goes on")
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        raise OSError("no broker")

    # The guard's own process ends with its loop.
    loop = asyncio.SelectorEventLoop()
    monkeypatch.setattr(asyncio, "SelectorEventLoop", lambda: loop)
    read, write = os.pipe()
    for name, value in {
        "PIPE": read,
        "LAST_WORDS_SECONDS": 0.3,
        "LAST_RETRY_SECONDS": 0.0,
        "QUIET_SECONDS": 0.0,
        "find": find,
        "dial": dial,
    }.items():
        monkeypatch.setattr(reporting, name, value)
    about: dict[str, Any] = {"key": "j/r/h:0/1", "main": 1, "broker": None, "environ": {}, "stuck": 6.0, "signal": 0}
    try:
        Witness(about, Killed(), {}, None).run(said)  # type: ignore[arg-type] # a process that has ended
    finally:
        loop.close()
        os.close(read)
        os.close(write)
    return attempts


def test_a_guard_ends_after_its_rank_even_if_its_cancellation_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 < len(dials_in_vain(monkeypatch)) <= 500


def test_a_guard_dials_first_which_of_several_brokers_has_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Endpoint(host=host, port=6900, secure=True, fingerprint=PIN) for host in ("login1", "login2"))
    reach = Reach(endpoint=first, token="t" * 43, sources={}, others=(second,))
    (route, *_) = dials_in_vain(monkeypatch, reach, f"{MARK}{BEAT} 17 j/r/h:0/1 {second}\n".encode())
    assert (route.endpoint, route.others) == (second, (first,))
