"""Which ranks get a pane."""

from __future__ import annotations

import shlex

import pytest

from dbg_client.run.panes import TooManyPanes, attach_words, plan_panes
from dbg_client.run.verb import Tmux
from dbg_client.terminal.verb import Attach
from dbg_wire.records.ranks import RankState
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
        ["--escape", "none", "--watch", "--no-status"],
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
