"""Which ranks are asked about NCCL's RAS, what becomes of their answers, and where and how often verdicts are made."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from dbg_agent.guard.ras import parse_reply
from dbg_client.hang import explain as explaining
from dbg_client.hang.explain import Explanation, explain
from dbg_client.questions import cause
from dbg_client.questions.cause import MAX_HOSTS, ask_ras, find_case, gather_case
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.beside import RasCommunicator, status_rows
from dbg_wire.records.ranks import RankInfo, RankState
from tests.support.ras_replies import rank, reply
from tests.unit.client.fake_broker import make_rank

STATUS = parse_reply(reply(([rank(0)], [])))
TOLD = RankAnswer(key="", kind=Kind.VALUE, text="", rows=status_rows(STATUS))
NOBODY = RankAnswer(key="", kind=Kind.ERROR, text="no NCCL with RAS is there")
WRONG = RankAnswer(key="", kind=Kind.VALUE, text="", rows=(RasCommunicator(name="1"),))


class Asked:
    """An asker that has its answers already."""

    def __init__(self, *answers: RankAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def ask(self, action: Action, ranks: Sequence[RankInfo], **_: Any) -> list[RankAnswer]:
        assert action is Action.RAS
        self.asked += [one.host for one in ranks]
        return [self.answers.pop(0)]


def hosts(count: int) -> list[RankInfo]:
    return [make_rank(number, host=f"gpu{number // 2}") for number in range(2 * count)]


async def test_one_rank_of_each_host_is_asked_until_one_tells() -> None:
    asker = Asked(NOBODY, WRONG, TOLD)
    found = await ask_ras(asker, hosts(5))  # type: ignore[arg-type] # as far as it is used
    assert (found, asker.asked) == (STATUS, ["gpu0", "gpu1", "gpu2"])


async def test_few_hosts_are_asked_where_none_tells() -> None:
    asker = Asked(*[NOBODY] * 10)
    found = await ask_ras(asker, hosts(5))  # type: ignore[arg-type]
    assert (found, len(asker.asked)) == (None, MAX_HOSTS)
    gone = [make_rank(0, state=RankState.EXITED, reason=None)]
    assert await ask_ras(Asked(), gone) is None  # type: ignore[arg-type]


class SlowRanks:
    """An asker whose ranks are where they were, and take their time to say so."""

    async def ask(self, action: Action, ranks: Sequence[RankInfo], **_: Any) -> list[RankAnswer]:
        assert action is Action.WHERE
        await asyncio.sleep(0.03)
        return [RankAnswer(key=one.key, kind=Kind.VALUE, text="running") for one in ranks]


async def test_the_last_look_is_late_enough_to_tell_however_long_looks_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cause, "BETWEEN_SECONDS", 0.01)
    job = [make_rank(0, state=RankState.RUNNING, reason=None, where=None)]

    case = await gather_case(SlowRanks(), job, longest=0.05)  # type: ignore[arg-type]

    assert case.looks[-1].at >= 0.05


async def test_verdicts_are_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand ranks that takes seconds, in which keys of a debugger would wait."""
    threads: list[threading.Thread] = []

    def noting(*arguments: Any) -> Explanation:
        threads.append(threading.current_thread())
        return explain(*arguments)

    monkeypatch.setattr(cause, "explain", noting)
    monkeypatch.setattr(explaining, "explain", noting)
    stopped = hosts(1)
    await find_case(Stopped(), stopped, stopped, longest=0.0)  # type: ignore[arg-type] # as far as it is used
    assert len(threads) == 2
    assert threading.main_thread() not in threads


class Stopped:
    """An asker whose ranks stand in a debugger."""

    async def ask(self, action: Action, ranks: Sequence[RankInfo], **_: Any) -> list[RankAnswer]:
        return [RankAnswer(key=one.key, kind=Kind.VALUE, text="stopped") for one in ranks]
