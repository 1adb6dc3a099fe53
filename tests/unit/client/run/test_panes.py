"""Which ranks get a pane, and what a run waits for."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from dbg_client.run.panes import TooManyPanes, attach_words, plan_panes
from dbg_client.run.progress import progress, way_back
from dbg_client.run.verb import Tmux
from dbg_client.terminal.verb import Attach
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.support.rank_infos import changed
from tests.unit.client.command_line.typed import settled
from tests.unit.client.fake_broker import make_rank

SETTINGS = settled("tmux 0-3", Tmux)


@pytest.mark.parametrize(
    "words",
    [
        ["--take", "--engine", "pdb", "-x", "-Odd name;", "--no-rc", "--vi", "--frame", "-2"],
        ["--escape", "^^", "--timeout", "0.1", "--broker", "h:1#sha256:" + "0" * 64],
        ["--escape", "none", "--watch", "--no-status", "-v"],
    ],
)
def test_a_pane_does_as_the_options_say(words: list[str]) -> None:
    settings = settled(shlex.join(["tmux", *words, "0-3"]), Tmux)

    pane = settled(shlex.join([*attach_words(settings.broker, settings.attach, follow=True), "--", "-job/h:1"]), Attach)

    asked = settled(shlex.join([*words, "--follow", "--", "-job/h:1"]), Attach)
    assert pane == asked


def test_each_rank_has_a_seat_that_names_it_with_its_job() -> None:
    ranks = [make_rank(number, job="-1.0") for number in range(3)]
    other = make_rank(0, job="other", key="other")

    plans = plan_panes(SETTINGS, "0-2", ranks, [*ranks, other])

    assert [plan.words[-2:] for plan in plans] == [("--", f"-1.0/{rank.address}") for rank in ranks]
    assert [plan.title for plan in plans] == [f"-1.0/{ranks[0].address}", ranks[1].address, ranks[2].address]


@pytest.mark.parametrize(
    ("states", "follows"),
    [
        ([RankState.HELD, RankState.HELD], False),
        ([RankState.HELD, RankState.STOPPED], True),
        ([RankState.RUNNING], True),
    ],
)
def test_a_pane_waits_for_a_stop_unless_all_are_held(states: list[RankState], follows: bool) -> None:
    ranks = [changed(make_rank(number), state=state) for number, state in enumerate(states)]

    plans = plan_panes(SETTINGS, "all", ranks, ranks)

    assert ["--follow" in plan.words for plan in plans] == [follows] * len(ranks)


def test_the_name_of_a_hostile_rank_is_no_format() -> None:
    rank = changed(make_rank(0), host="#(touch x)", address="#(touch x):0", job="\x1b;")

    (plan,) = plan_panes(SETTINGS, "0", [rank], [rank])

    assert "#" not in plan.title
    assert plan.title.isprintable()


def test_more_panes_than_can_be_read_are_refused_with_what_to_do(approved: Approved) -> None:
    ranks = [make_rank(number) for number in range(17)]

    assert len(plan_panes(SETTINGS, "all", ranks[:16], ranks)) == 16
    with pytest.raises(TooManyPanes) as caught:
        plan_panes(SETTINGS, "all", ranks, ranks)
    approved(str(caught.value))
    assert caught.value.exit_status == 2


def running(rank: int, **fields: Any) -> RankInfo:
    return make_rank(rank, **{"state": RankState.RUNNING, "where": None, "reason": None, "world_size": 4, **fields})


PASSED = "a.py:5 without stopping, because no broker answered (no answer within 10 s)"
FOUR = [running(rank) for rank in range(4)]


@pytest.mark.parametrize(
    ("ranks", "stops"),
    [
        ([], ("train.py:38",)),
        (FOUR[:1], ("train.py:38",)),
        (FOUR, ("train.py:38",)),
        (FOUR, ("a.py:1", "b:main")),
        (FOUR, ()),
        ([running(0, world_size=None)], ()),
        ([*FOUR[:3], running(3, state=RankState.EXITED)], ()),
        ([*FOUR, running(0, child=1)], ()),
        ([running(rank, passed=PASSED) for rank in range(4)], ("a.py:5",)),
        ([*FOUR[:3], running(3, passed=PASSED)], ("a.py:5",)),
        (FOUR, ("a\x1b.py:1",)),
    ],
)
def test_who_is_there_and_what_none_has_reached(
    approved: Approved, ranks: list[RankInfo], stops: tuple[str, ...]
) -> None:
    approved(progress(ranks, stops, "all", 12.3, had_stop=False))


def test_after_a_stop_one_is_told_the_way_back(approved: Approved) -> None:
    one_of_two = [make_rank(0, world_size=2), running(1, world_size=2)]
    sentences = [
        progress(FOUR, ("train.py:38",), "all", 2, had_stop=True),
        progress(one_of_two, (), "1", 605, had_stop=False),
        way_back([make_rank(6)]),
        way_back([make_rank(6), make_rank(5)]),
    ]
    approved("\n".join(sentences))
