"""Where and how often verdicts are made, and what becomes of the answers of ranks and guards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.api.breakpoints import BreakpointAnswer, ask_breakpoints, change_breakpoints, split_changes
from dbg_client.core.asking import Asker
from dbg_client.verbs.control import Continue, Kill, RankCommand, Release, is_moving
from dbg_client.views.groups import group_answers
from dbg_client.why import explain as explaining
from dbg_client.why import questions as cause
from dbg_client.why.explain import Explanation, explain
from dbg_client.why.hang_detector import ask_where
from dbg_client.why.questions import find_case, gather_case
from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.inspection import BreakpointSpec, BreakpointState, LineOfFile
from dbg_wire.records.ranks import CRASH, RankInfo, RankState
from dbg_wire.records.record import length_of
from tests.conftest import Approved
from tests.support.answers import answered
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink, switchboard_on

RUNS = RankAnswer(key="", kind=Kind.VALUE, text="running")


Reply = RankAnswer | Exception


class Asked:
    """An asker whose questions get these replies, each rank the same; the last one stays."""

    def __init__(self, action: Action, *replies: Reply, seconds: float = 0.0) -> None:
        self.asked: list[tuple[RankInfo, Any]] = []
        self._action, self._replies, self._seconds = action, list(replies), seconds

    async def ask(self, action: Action, ranks: Sequence[RankInfo], **more: Any) -> list[RankAnswer]:
        assert action is self._action
        self.asked.append((ranks[0], more.get("inquiry")))
        await asyncio.sleep(self._seconds)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return [reply.replace(key=one.key) for one in ranks]


def hosts(count: int) -> list[RankInfo]:
    return [make_rank(number, host=f"gpu{number // 2}") for number in range(2 * count)]


async def test_last_snapshot_is_late_enough_for_slow_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cause, "BETWEEN_SECONDS", 0.01)
    job = [make_rank(0, state=RankState.RUNNING, reason=None, where=None)]

    case, _ = await gather_case(Asked(Action.WHERE, RUNS, seconds=0.03), job, longest=0.05)  # type: ignore[arg-type]

    assert case.snapshots[-1].at >= 0.05


async def test_job_with_a_crashed_rank_is_watched_and_job_with_a_stopped_rank_is_not() -> None:
    asker = Asked(Action.WHERE, RUNS.replace(text="stopped"))
    runs = make_rank(1, state=RankState.RUNNING, reason=None, where=None)

    assert await ask_where(asker, [make_rank(0), runs]) is None  # type: ignore[arg-type]
    # It has been stopped by now.
    assert await ask_where(asker, [runs]) is None  # type: ignore[arg-type]
    assert await ask_where(asker, [make_rank(0, reason=CRASH)]) is not None  # type: ignore[arg-type]


async def test_verdicts_are_computed_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand ranks that takes seconds, in which keys of a debugger would wait."""
    threads: list[threading.Thread] = []

    def noting(*arguments: Any) -> Explanation:
        threads.append(threading.current_thread())
        return explain(*arguments)

    monkeypatch.setattr(cause, "explain", noting)
    monkeypatch.setattr(explaining, "explain", noting)
    stopped = hosts(1)
    await find_case(Asked(Action.WHERE, RUNS), stopped, stopped, longest=0.0)  # type: ignore[arg-type] # as far as it is used
    assert threads
    assert threading.main_thread() not in threads


EVERYBODY = [make_rank(number, state=state) for number, state in enumerate(RankState)]


@pytest.mark.parametrize(
    ("verb", "states"),
    [
        (Continue(), {"stopped", "unresponsive"}),
        (Release(), {"held"}),
        (Kill(), {"running", "stopped", "held", "unresponsive"}),
    ],
    ids=lambda case: case.name if isinstance(case, RankCommand) else "",
)
def test_command_applies_to_ranks_by_their_state(verb: RankCommand, states: set[str]) -> None:
    assert {rank.state.value for rank in EVERYBODY if verb.fits(rank)} == states
    assert {rank.state.value for rank in EVERYBODY if is_moving(rank)} == {"running", "unresponsive"}


FILE = "/job/train.py"
LINE = LineOfFile(file=FILE, line=12)


def state(line: int = 12, **changes: object) -> BreakpointState:
    values: dict[str, object] = {"file": FILE, "asked": line, "line": line, "is_set": True}
    return BreakpointState(**{**values, **changes})  # type: ignore[arg-type]


def reports(rank: RankInfo, *states: BreakpointState) -> RankAnswer:
    return RankAnswer(key=rank.key, kind=Kind.VALUE, text="", rows=states)


def refuses(rank: RankInfo, kind: Kind, text: str) -> RankAnswer:
    return RankAnswer(key=rank.key, kind=kind, text=text)


async def ask(
    link: ScriptedLink, ranks: list[RankInfo], clear: list[LineOfFile], wanted: list[BreakpointSpec]
) -> BreakpointAnswer:
    async with switchboard_on(link) as switchboard:
        return await ask_breakpoints(Asker(switchboard), ranks, clear=clear, wanted=wanted)


async def test_ranks_are_grouped_by_the_result_of_a_breakpoint(
    approved: Approved,
) -> None:
    ranks = [make_rank(number) for number in range(6)]
    by_rank = (
        reports(ranks[0], state(), state(40)),
        reports(ranks[1], state()),
        reports(ranks[2], state(line=13, asked=12)),
        reports(ranks[3], state(is_set=False, problem="no code follows this line")),
        refuses(ranks[4], Kind.ERROR, "an older debugger"),
        reports(ranks[5]),
    )
    link = ScriptedLink([answered(0, *by_rank)])

    answer = await ask(link, ranks, [], [BreakpointSpec(file=FILE, line=12)])

    groups = [([rank.rank for rank in group.ranks], group.text) for group in group_answers(answer.answers_at(LINE))]
    assert sorted(numbers for numbers, _ in groups) == [[0, 1], [2], [3], [4], [5]]
    approved("\n".join(text for _, text in groups))
    assert [group.text for group in group_answers(answer.all_answers()) if group.ranks[0].rank == 0] == [
        f"{FILE}:12\n{FILE}:40"
    ]
    assert set(answer.at(LINE)) == {rank.key for rank in ranks[:4]}


async def test_cleared_breakpoint_is_distinguished_from_an_absent_one(approved: Approved) -> None:
    ranks = [make_rank(0), make_rank(1)]
    link = ScriptedLink(
        [answered(0, reports(ranks[0], state()), reports(ranks[1]))],
        [answered(1, reports(ranks[0]), reports(ranks[1]))],
    )
    async with switchboard_on(link) as switchboard:
        by_rank = await change_breakpoints(Asker(switchboard), ranks, LINE, None)

    approved("\n".join(one.text for _, one in by_rank))


async def test_many_breakpoints_are_sent_in_parts_and_earlier_failures_are_kept() -> None:
    rank, gone = make_rank(0), make_rank(1)
    wanted = [BreakpointSpec(file=FILE, line=line, log="x" * 900) for line in range(1, 31)]
    bad = state(1, is_set=False, problem="no code")
    link = ScriptedLink(
        [answered(0, reports(rank, bad, state(2)), refuses(gone, Kind.LOST, "exited"))],
        [answered(1, reports(rank, state(2), state(30)))],
    )

    answer = await ask(link, [rank, gone], [], wanted)

    assert [len(question.keys) for question in link.sent] == [2, 1]
    assert answer.states == {rank.key: (bad, state(2), state(30))}
    assert [one.kind for _, one in answer.by_rank] == [Kind.VALUE, Kind.LOST]


FILES = st.text(max_size=300).map(lambda text: f"/{text}")
LINES = st.builds(LineOfFile, file=FILES, line=st.integers(1, 10_000))
SPECS = st.builds(BreakpointSpec, file=FILES, line=st.integers(1, 10_000), condition=st.text(max_size=1000))


@given(st.lists(LINES, max_size=150), st.lists(SPECS, max_size=150))
def test_split_changes_fit_and_keep_their_order(clear: list[LineOfFile], wanted: list[BreakpointSpec]) -> None:
    parts = split_changes(clear, wanted)
    assert all(length_of(part) <= MAX_TEXT for part in parts)
    assert [one for part in parts for one in part.clear] == clear
    assert [one for part in parts for one in part.set] == wanted
    first_set = next((number for number, part in enumerate(parts) if part.set), len(parts))
    assert not any(part.clear for part in parts[first_set + 1 :])
