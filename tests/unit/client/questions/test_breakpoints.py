from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.core.asking import Asker
from dbg_client.questions.breakpoints import BreakpointAnswer, ask_breakpoints, describe, split_wishes
from dbg_client.views.groups import group_answers
from dbg_wire.errors import BadInput
from dbg_wire.limits import MAX_BREAKPOINTS, MAX_TEXT
from dbg_wire.messages import Answers, Kind, RankAnswer
from dbg_wire.records.breakpoints import BreakpointState, BreakpointWish, LineOfFile
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import length_of
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink, switchboard_on

FILE = "/job/train.py"
LINE = LineOfFile(file=FILE, line=12)


def state(line: int = 12, **changes: object) -> BreakpointState:
    values: dict[str, object] = {"file": FILE, "asked": line, "line": line, "is_set": True}
    return BreakpointState(**{**values, **changes})  # type: ignore[arg-type]


def tells(rank: RankInfo, *states: BreakpointState) -> RankAnswer:
    return RankAnswer(key=rank.key, kind=Kind.VALUE, text="", rows=states)


def refuses(rank: RankInfo, kind: Kind, text: str) -> RankAnswer:
    return RankAnswer(key=rank.key, kind=kind, text=text)


async def ask(
    link: ScriptedLink, ranks: list[RankInfo], clear: list[LineOfFile], wanted: list[BreakpointWish]
) -> BreakpointAnswer:
    async with switchboard_on(link) as switchboard:
        return await ask_breakpoints(Asker(switchboard), ranks, clear=clear, wanted=wanted)


async def test_ranks_are_grouped_by_whether_they_have_set_or_moved_a_breakpoint_or_say_why_not() -> None:
    ranks = [make_rank(number) for number in range(6)]
    said = (
        tells(ranks[0], state(), state(40)),
        tells(ranks[1], state()),
        tells(ranks[2], state(line=13, asked=12)),
        tells(ranks[3], state(is_set=False, problem="no code follows this line")),
        refuses(ranks[4], Kind.ERROR, "a stock debugger has no `breakpoints`"),
        tells(ranks[5]),
    )
    link = ScriptedLink([Answers(request=0, answers=said)])

    answer = await ask(link, ranks, [], [BreakpointWish(file=FILE, line=12)])

    groups = {group.text: [rank.rank for rank in group.ranks] for group in group_answers(answer.said_of(LINE))}
    assert groups == {
        "set": [0, 1],
        "set at line 13": [2],
        "no code follows this line": [3],
        "a stock debugger has no `breakpoints`": [4],
        "no breakpoint at this line": [5],
    }
    assert [group.text for group in group_answers(answer.said_of_all()) if group.ranks[0].rank == 0] == [
        f"{FILE}:12\n{FILE}:40"
    ]
    assert set(answer.at(LINE)) == {rank.key for rank in ranks[:4]}


async def test_many_wishes_go_out_in_turn_and_what_an_earlier_one_could_not_set_is_told() -> None:
    rank, gone = make_rank(0), make_rank(1)
    wanted = [BreakpointWish(file=FILE, line=line, log="x" * 900) for line in range(1, 31)]
    bad = state(1, is_set=False, problem="no code")
    link = ScriptedLink(
        [Answers(request=0, answers=(tells(rank, bad, state(2)), refuses(gone, Kind.LOST, "exited")))],
        [Answers(request=1, answers=(tells(rank, state(2), state(30)),))],
    )

    answer = await ask(link, [rank, gone], [], wanted)

    assert [len(question.keys) for question in link.sent] == [2, 1]
    assert answer.states == {rank.key: (bad, state(2), state(30))}
    assert [one.kind for _, one in answer.said] == [Kind.VALUE, Kind.LOST]


async def test_a_line_without_a_breakpoint_says_so() -> None:
    rank = make_rank(0)
    answer = await ask(ScriptedLink([Answers(request=0, answers=(tells(rank),))]), [rank], [LINE], [])
    assert [one.text for _, one in answer.said_of(LINE)] == ["no breakpoint at this line"]
    assert [one.text for _, one in answer.said_of_all()] == ["no breakpoints"]


FILES = st.text(max_size=300).map(lambda text: f"/{text}")
LINES = st.builds(LineOfFile, file=FILES, line=st.integers(1, 10_000))
WISHES = st.builds(BreakpointWish, file=FILES, line=st.integers(1, 10_000), condition=st.text(max_size=1000))


@given(st.lists(LINES, max_size=150), st.lists(WISHES, max_size=150))
def test_a_split_wish_fits_and_is_whole_and_in_order(clear: list[LineOfFile], wanted: list[BreakpointWish]) -> None:
    parts = split_wishes(clear, wanted)
    assert all(length_of(part) <= MAX_TEXT for part in parts)
    assert [one for part in parts for one in part.clear] == clear
    assert [one for part in parts for one in part.set] == wanted
    first_set = next((number for number, part in enumerate(parts) if part.set), len(parts))
    assert not any(part.clear for part in parts[first_set + 1 :])


def test_a_wish_is_as_long_as_a_question_may_be() -> None:
    lines = [LineOfFile(file="/a", line=line) for line in range(1, MAX_BREAKPOINTS + 2)]
    assert [len(part.clear) for part in split_wishes(lines, [])] == [MAX_BREAKPOINTS, 1]
    with pytest.raises(BadInput):
        split_wishes([], [BreakpointWish(file="/" + "\x01" * MAX_TEXT, line=1)])


def test_a_breakpoint_is_described_in_a_line() -> None:
    odd = state(
        13, asked=12, condition="loss > 3", hits=">= 3", log="at {step}", problem="counts from the next call on"
    )
    assert describe(odd) == (
        "/job/train.py:13 if loss > 3 hits >= 3 log 'at {step}' (asked for line 12; counts from the next call on)"
    )
    assert describe(state(is_set=False, problem="no code")) == "/job/train.py:12 (not set: no code)"
