"""Which stop of a job a terminal goes to next."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.core.asking import PAGE, Asker
from dbg_client.core.choose import MAX_WORLD, ExpectedRanks, ended_of_live_runs, find_missing_ranks, live_runs
from dbg_client.core.errors import Declined, TimedOut
from dbg_client.core.link import Down
from dbg_client.core.switchboard import open_and_list, switchboard_to
from dbg_client.core.wait_progress import WaitingLine
from dbg_client.core.waiting import wait_for_stop, with_signal
from dbg_client.run.job import next_stop
from dbg_command.targets import parse_target
from dbg_wire.errors import BrokerUnreachable
from dbg_wire.messages import (
    Action,
    Answers,
    Change,
    Kind,
    RankAnswer,
    Refusal,
    RefusalCode,
    Subscribe,
)
from dbg_wire.records.inspection import ScreenSize
from dbg_wire.records.ranks import DIED, Place, RankInfo, RankState
from tests.conftest import Approved
from tests.support.answers import answered
from tests.support.approved import as_text
from tests.support.rank_infos import changed, rank
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank
from tests.unit.client.scripted_link import ScriptedLink, switchboard_on


def answers(request: int, *ranks: RankInfo, last: bool = True) -> Answers:
    made = (RankAnswer(key=rank.key, kind=Kind.VALUE, text=rank.address) for rank in ranks)
    return answered(request, *made, last=last)


async def ask(link: ScriptedLink, *ranks: RankInfo) -> list[RankAnswer]:
    async with switchboard_on(link) as switchboard:
        return await Asker(switchboard).ask(Action.EVAL, ranks, "loss")


async def test_answers_are_in_rank_order_and_missing_ones_are_silent() -> None:
    one, two, three = map(make_rank, range(3))
    link = ScriptedLink([answers(0, three, last=False), answers(0, one)])

    found = await ask(link, one, two, three)

    assert [answer.key for answer in found] == [one.key, two.key, three.key]
    assert [answer.kind for answer in found] == [Kind.VALUE, Kind.SILENT, Kind.VALUE]


@pytest.mark.parametrize(("live", "count"), [(False, 2), (True, 3)])
async def test_ranks_that_cannot_answer_do_not_count_as_asked(live: bool, count: int) -> None:
    states = (RankState.STOPPED, RankState.HELD, RankState.RUNNING, RankState.UNRESPONSIVE, RankState.LOST)
    ranks = [make_rank(number, state=state) for number, state in enumerate(states)]
    link = ScriptedLink([answers(0, *ranks)])
    async with switchboard_on(link) as switchboard:
        await Asker(switchboard).ask(Action.EVAL, ranks, "x.full_tensor()", live=live)
    assert [question.asked for question in link.sent] == [count]


async def test_question_to_many_ranks_is_sent_in_pages() -> None:
    ranks = [make_rank(number) for number in range(PAGE + 1)]
    link = ScriptedLink([], [answers(1, ranks[-1]), answers(0, *ranks[:-1])])

    found = await ask(link, *ranks)

    assert [len(question.keys) for question in link.sent] == [PAGE, 1]
    assert {answer.kind for answer in found} == {Kind.VALUE}


async def test_late_answers_to_an_earlier_question_are_ignored() -> None:
    rank = make_rank()
    link = ScriptedLink([answers(0, rank)], [answers(0, make_rank(6)), answers(1, rank)])
    async with switchboard_on(link) as switchboard:
        asker = Asker(switchboard)

        await asker.ask(Action.EVAL, [rank], "loss")
        (again,) = await asker.ask(Action.EVAL, [rank], "loss")

        assert again.text == rank.address


async def test_screen_question_has_the_current_size() -> None:
    rank = make_rank()
    sizes = iter([(50, 132), (20, 70)])
    link = ScriptedLink([answers(0, rank)], [answers(1, rank)])
    async with switchboard_on(link) as switchboard:
        asker = Asker(switchboard, size=lambda: next(sizes))

        await asker.ask(Action.SCREEN, [rank])
        await asker.ask(Action.SCREEN, [rank])

    assert [question.inquiry for question in link.sent] == [
        ScreenSize(rows=50, columns=132),
        ScreenSize(rows=20, columns=70),
    ]


async def test_unanswered_ranks_are_shown_after_a_moment_until_all_have_answered(
    approved: Approved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dbg_client.core.wait_progress.SHOW_AFTER_SECONDS", 0.01)
    one, two = make_rank(5), make_rank(77)
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    link = ScriptedLink()
    async with switchboard_on(link) as switchboard:
        asker = Asker(switchboard, 60.0, line=WaitingLine(lines.put_nowait))
        asking = asyncio.ensure_future(asker.ask(Action.EVAL, [one, two], "loss"))
        approved(await lines.get())
        link.events.put_nowait(answers(0, one, last=False))
        while (line := await lines.get()) != "1 of 2 ranks answered (0 s)":
            assert line is not None
        link.events.put_nowait(answers(0, two))
        assert len(await asking) == 2
    shown = None
    while not lines.empty():
        shown = lines.get_nowait()
    assert shown is None


async def test_broker_that_refuses_or_disconnects_is_an_error(approved: Approved) -> None:
    rank = make_rank()
    with pytest.raises(Declined, match="the broker refused: no"):
        await ask(ScriptedLink([Refusal(code=RefusalCode.ROLE, text="no", request=0)]), rank)
    with pytest.raises(TimedOut) as caught:
        await ask(ScriptedLink([Down("it shut down")]), rank)
    approved(str(caught.value))
    with pytest.raises(TimedOut) as caught:
        await ask(ScriptedLink(up=False), rank)
    approved(str(caught.value), "2")


async def test_a_silent_broker_is_given_up_some_seconds_after_the_deadline(
    approved: Approved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.core.asking.GRACE_SECONDS", 0.05)
    with pytest.raises(TimedOut) as caught:
        async with switchboard_on(ScriptedLink()) as switchboard:
            await Asker(switchboard, 0.01).ask(Action.EVAL, [make_rank()], "loss")
    approved(str(caught.value))


EXITED = RankState.EXITED


def rank_roll_call(number: int, state: RankState = RankState.RUNNING, **changes: object) -> RankInfo:
    job, run = changes.get("job", "4711.0"), changes.get("run", "0.0")
    values = {"world_size": 4, "key": f"{job}/{run}/{number}/{state.value}/{changes.get('child')}", **changes}
    return make_rank(number, state=state, **values)


def missing(calls: list[ExpectedRanks]) -> list[tuple[str, tuple[int, ...], str]]:
    found = [(call.job, one.numbers, one.text) for call in calls for one in call.exited]
    return found + [(call.job, call.absent, "never came") for call in calls if call.absent]


def test_absent_ranks_follow_from_the_world_size() -> None:
    (call,) = find_missing_ranks([rank_roll_call(0), rank_roll_call(1)])

    assert (call.world, call.connected, call.absent) == (4, 2, (2, 3))
    assert not call.exited


def test_largest_world_size_is_used() -> None:
    (call,) = find_missing_ranks(
        [
            rank_roll_call(0, world_size=None),
            rank_roll_call(1, world_size=2),
            rank_roll_call(2, EXITED, world_size=3, exit=0),
        ]
    )

    assert call.world == 3
    assert missing([call]) == [("4711.0", (2,), "exited with status 0")]
    assert find_missing_ranks([rank_roll_call(0, world_size=None)]) == []


def test_impossible_world_size_is_ignored() -> None:
    assert find_missing_ranks([rank_roll_call(0, world_size=MAX_WORLD + 1)]) == []
    (call,) = find_missing_ranks([rank_roll_call(0, world_size=MAX_WORLD)])
    assert len(call.absent) == MAX_WORLD - 1


def test_dead_ranks_are_grouped_by_how_they_ended() -> None:
    ranks = [
        rank_roll_call(0),
        rank_roll_call(1, EXITED, exit=-9, since=30.0),
        rank_roll_call(2, EXITED, exit=1, since=40.0),
        rank_roll_call(3, EXITED, exit=-9, since=20.0),
    ]

    (call,) = find_missing_ranks(ranks)

    assert missing([call]) == [
        ("4711.0", (1, 3), "killed by SIGKILL"),
        ("4711.0", (2,), "exited with status 1"),
    ]
    assert [one.since for one in call.exited] == [20.0, 40.0]
    assert (call.connected, call.absent) == (4, ())


def test_replacement_process_hides_the_dead_one() -> None:
    ranks = [rank_roll_call(number) for number in range(4)]
    assert find_missing_ranks([*ranks, rank_roll_call(2, EXITED, exit=-9)]) == []
    again = [rank_roll_call(2, EXITED, exit=-9, since=5.0), rank_roll_call(2, EXITED, key="first", exit=0, since=1.0)]
    assert missing(find_missing_ranks([*ranks[:2], ranks[3], *again])) == [("4711.0", (2,), "killed by SIGKILL")]


def test_children_and_stock_debuggers_are_not_counted() -> None:
    child = rank_roll_call(0, EXITED, child=1, address="gpu013:0.1", exit=1)
    stock = rank_roll_call(0, job="classic", address="gpu013:?1")
    ended = rank_roll_call(9, EXITED, job="classic", address="gpu013:?9", key="ended")

    assert find_missing_ranks([*(rank_roll_call(number) for number in range(4)), child, stock, ended]) == []


def test_new_run_of_a_relaunched_job_is_counted() -> None:
    before = [rank_roll_call(number, RankState.LOST, run="0.0") for number in (0, 1)]
    before += [rank_roll_call(number, EXITED, run="0.0", exit=1) for number in (2, 3)]
    now = [rank_roll_call(number, run="0.1") for number in (0, 1, 2)]

    assert live_runs([*before, *now]) == {("4711.0", "0.1")}
    assert missing(find_missing_ranks([*before, *now])) == [("4711.0", (3,), "never came")]
    assert live_runs(before) == {("4711.0", "0.0")}
    assert live_runs(before[2:]) == frozenset()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("all", {2, 3}),
        ("*/all", {2, 3}),
        ("4711.0/all", {2, 3}),
        ("47*/all", {2, 3}),
        ("4712.0/all", set()),
        (":*", {2, 3}),
        ("0-2", {2}),
        ("3", {3}),
        ("!3", {2}),
        ("all,!2", {3}),
        ("0,3", {3}),
        ("gpu013:*", {2}),
        ("gpu014:*", set()),
        ("stopped", set()),
        ("running", set()),
        ("0,running", set()),
        ("2@7", set()),
    ],
)
def test_target_selects_missing_ranks_by_number_or_whole_job(text: str, numbers: set[int]) -> None:
    ranks = [rank_roll_call(0), rank_roll_call(1), rank_roll_call(2, EXITED, exit=-9)]

    calls = find_missing_ranks(ranks, parse_target(text))

    assert {number for _, some, _ in missing(calls) for number in some} == numbers


def test_asked_ranks_and_other_jobs_are_not_missing() -> None:
    dead, other = rank_roll_call(2, EXITED, exit=-9), rank_roll_call(0, job="other")
    ranks = [rank_roll_call(0), rank_roll_call(1), dead, rank_roll_call(3), other]

    assert missing(find_missing_ranks(ranks, asked={ranks[0].key})) == [("4711.0", (2,), "killed by SIGKILL")]
    assert find_missing_ranks(ranks, asked={ranks[0].key, dead.key}) == []
    assert missing(find_missing_ranks(ranks, asked={other.key})) == [("other", (1, 2, 3), "never came")]


def test_ended_rank_of_a_live_run_is_listed_once() -> None:
    dead, older = rank_roll_call(2, EXITED, since=5.0, exit=-9), rank_roll_call(2, EXITED, key="older", since=1.0)
    gone = rank_roll_call(1, EXITED, job="gone")
    assert ended_of_live_runs([rank_roll_call(0), older, dead, gone]) == [dead]


PATIENCE = seconds(10)
RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None)


async def test_wait_reports_its_start_and_reconnections_to_the_broker(
    approved: Approved, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between two looks, an absence that is short enough goes by unseen.
    monkeypatch.setattr("dbg_client.core.switchboard.CHECK_SECONDS", 0.0)
    messages: list[str] = []
    with FakeBroker(RUNNING) as broker:
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.open()
        waiting = asyncio.ensure_future(wait_for_stop(board, parse_target("5"), PATIENCE, notify=messages.append))
        await broker.heard(Subscribe)
        broker.cut()
        await broker.heard(Subscribe, count=2)
        broker.send_all(Change(rank=make_rank(5)))

        assert (await waiting).rank == make_rank(5)
        await board.close()

    approved(as_text(messages))


async def test_wait_shows_the_state_of_the_ranks(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_client.core.wait_progress.SHOW_AFTER_SECONDS", 0.01)
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    line = WaitingLine(lines.put_nowait)
    other = make_rank(7, state=RankState.HELD)

    async def shown(sentence: str) -> None:
        while await asyncio.wait_for(lines.get(), PATIENCE) != f"{sentence} (0 s)":
            pass

    with FakeBroker(RUNNING, make_rank(6, state=RankState.RUNNING), other) as broker:
        board = switchboard_to(None, seconds(60), environ | broker.environment)
        await open_and_list(board, line)
        for target, state in (("5-7", "3 of 3 matching ranks are alive"), ("9", "no rank matches yet")):
            waiting = asyncio.ensure_future(wait_for_stop(board, parse_target(target), PATIENCE, line=line))
            await shown(f"waiting for {target}: {state}")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await board.close()


async def test_progress_line_stays_until_the_last_wait_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_client.core.wait_progress.SHOW_AFTER_SECONDS", 0.01)
    shown: list[str | None] = []
    is_shown = asyncio.Event()

    def show(text: str | None) -> None:
        shown.append(text)
        is_shown.set()

    line = WaitingLine(show)
    async with line.says(lambda: "one"):
        async with line.says(lambda: "two"):
            pass
        await asyncio.wait_for(is_shown.wait(), PATIENCE)
        assert None not in shown
    assert shown[-1] is None


async def test_wait_times_out(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.open()
        with pytest.raises(TimedOut) as caught:
            await wait_for_stop(board, parse_target("5"), 0.01)
        approved(str(caught.value))
        await board.close()


async def test_signal_of_a_dead_rank_is_awaited(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    died = make_rank(5, state=RankState.EXITED, reason=DIED)
    killed = changed(died, exit=-9)
    exited = make_rank(5, state=RankState.EXITED, exit=0)
    monkeypatch.setattr("dbg_client.core.waiting.GUARD_SECONDS", PATIENCE)
    with FakeBroker(died) as broker:
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.open()
        asked = asyncio.ensure_future(with_signal(board, died))
        await asyncio.sleep(0)
        broker.send_all(Change(rank=killed))
        assert await asked == killed
        assert await with_signal(board, exited) == exited
        # A rank without a guard has nobody to tell it.
        broker.send_all(Change(rank=died))
        monkeypatch.setattr("dbg_client.core.waiting.GUARD_SECONDS", 0.01)
        board.directory.receive(Change(rank=died))
        assert await with_signal(board, died) == died
        await board.close()


async def test_broker_without_a_list_is_unreachable(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        broker.silent.add(Subscribe)
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.dial()
        with pytest.raises(BrokerUnreachable) as caught:
            await board.listed(0.01)
        approved(str(caught.value))
        await board.close()


ALL = parse_target("all")
STOPPED, RUNNING_FOLLOWING, HELD, EXITED_FOLLOWING, LOST, SILENT = (
    RankState.STOPPED,
    RankState.RUNNING,
    RankState.HELD,
    RankState.EXITED,
    RankState.LOST,
    RankState.UNRESPONSIVE,
)


def job(*states: RankState) -> list[RankInfo]:
    """Make the ranks of one job, numbered from 0."""
    return [rank(f"gpu1:{number}", state=state, since=1.0) for number, state in enumerate(states)]


def next_of(
    ranks: list[RankInfo], wanted: int | None = None, left: dict[str, float] | None = None, target: str = "all"
) -> tuple[int | None, bool]:
    found, at_once = next_stop(parse_target(target), ranks, left or {}, wanted)
    return (None if found is None else found.rank), at_once


def test_a_rank_that_fell_silent_at_its_stop_is_still_stopped() -> None:
    (silent,) = job(SILENT)
    assert next_of([changed(silent, where=Place(file="a.py", line=1, function="f"))]) == (0, True)


def test_other_stops_wait_for_the_wanted_rank() -> None:
    wanted = 2
    assert next_of(job(STOPPED, RUNNING_FOLLOWING, RUNNING_FOLLOWING), wanted) == (0, False)
    assert next_of(job(STOPPED, RUNNING_FOLLOWING, STOPPED), wanted) == (2, True)
    assert next_of(job(STOPPED, RUNNING_FOLLOWING), wanted) == (0, False)


@pytest.mark.parametrize("state", [EXITED_FOLLOWING, LOST])
def test_ended_rank_is_not_awaited(state: RankState) -> None:
    assert next_of(job(STOPPED, RUNNING_FOLLOWING, state), 2) == (0, True)


def test_restarted_rank_is_awaited() -> None:
    ranks = [*job(STOPPED, EXITED_FOLLOWING), rank("gpu1:1", state=RUNNING_FOLLOWING, pid=2)]
    assert next_of(ranks, 1) == (0, False)


def test_left_stop_is_not_chosen_again_but_the_next_one_is() -> None:
    ranks = job(STOPPED, STOPPED)
    left = {ranks[0].key: ranks[0].since}
    assert next_of(ranks, left=left) == (1, True)
    assert next_of(ranks[:1], left=left) == (None, False)
    assert next_of([ranks[0].replace(since=2.0)], left=left) == (0, True)


def test_left_stop_is_recognized_after_the_clock_of_the_broker_is_set() -> None:
    stopped = changed(rank("gpu1:0", since=1.0), stop=4)
    left = {stopped.key: stopped.stop_id}
    assert next_of([stopped.replace(since=1.001)], left=left) == (None, False)
    assert next_of([changed(stopped, stop=5)], left=left) == (0, True)


def test_user_returns_to_the_rank_that_was_left() -> None:
    ranks = job(STOPPED, STOPPED, STOPPED)
    assert next_stop(ALL, ranks, {}, None, ranks[2].key) == (ranks[2], True)
    assert next_stop(ALL, ranks, {}, 1, ranks[2].key) == (ranks[2], True)
    assert next_stop(parse_target("0"), ranks, {}, None, ranks[2].key) == (ranks[2], True)
    assert next_stop(parse_target("7"), ranks, {}, None, ranks[2].key) == (ranks[2], True)


def test_only_the_target_is_followed() -> None:
    ranks = job(STOPPED, STOPPED, RUNNING_FOLLOWING)
    assert next_of(ranks, target="1-2") == (1, True)
    assert next_of(ranks, target="!0,!1") == (None, False)
    assert next_of(ranks, target="7") == (None, False)


def test_rank_precedes_its_children() -> None:
    ranks = [rank("gpu1:0.2"), rank("gpu1:0.1"), rank("gpu1:1"), rank("gpu1:0")]
    order = []
    left: dict[str, float] = {}
    for _ in ranks:
        found, _ = next_stop(ALL, ranks, left, None)
        assert found is not None
        left[found.key] = found.since
        order.append(found.address)
    assert order == ["gpu1:0", "gpu1:0.1", "gpu1:0.2", "gpu1:1"]


RANKS = st.lists(st.sampled_from(list(RankState)), max_size=6).map(lambda states: job(*states))


@given(RANKS, st.none() | st.integers(0, 7), st.sets(st.integers(0, 5)))
def test_next_rank_is_stopped_and_was_not_left(ranks: list[RankInfo], wanted: int | None, gone: set[int]) -> None:
    left = {one.key: one.since for one in ranks if one.rank in gone}
    ready = {one.rank for one in ranks if one.state is STOPPED and one.rank not in gone}
    found, at_once = next_of(ranks, wanted, left)

    assert found == (wanted if wanted in ready else min(ready, default=None))
    assert at_once <= (found is not None)
    if wanted is None or found == wanted:
        assert at_once is (found is not None)
    elif at_once:
        assert ranks[wanted].state in (EXITED_FOLLOWING, LOST)


@given(RANKS, st.integers(0, 7))
def test_order_of_the_listed_ranks_does_not_matter(ranks: list[RankInfo], wanted: int) -> None:
    assert next_of(ranks, wanted) == next_of(ranks[::-1], wanted)
