from __future__ import annotations

import shlex

import pytest

from dbg_client.core.errors import NeedsTarget, NoTerminal, RankEnded
from dbg_client.run.panes import TooManyPanes, attach_words, open_panes, plan_panes
from dbg_client.words.settings import Attach, Tmux
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.words.typed import settled

SETTINGS = settled("tmux 0-3", Tmux)


@pytest.mark.parametrize(
    "words",
    [
        ["--watch", "--no-status", "-v"],
        ["--take", "--engine", "pdb", "-x", "-Odd name;", "--no-rc", "--vi", "--frame", "-2"],
        ["--escape", "^^", "--timeout", "0.1", "--broker", "h:1#sha256:" + "0" * 64],
        ["--escape", "none"],
        ["--escape", "^\\"],
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


def test_a_seat_follows_its_rank_unless_held_ranks_were_named() -> None:
    stopped, held = make_rank(0), make_rank(1, state=RankState.HELD)

    both = plan_panes(SETTINGS, "0-1", [stopped, held], [stopped, held])
    alone = plan_panes(SETTINGS, "held", [held], [stopped, held])

    assert all("--follow" in plan.words for plan in both)
    assert "--follow" not in alone[0].words


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


def test_a_job_that_has_ended_opens_nothing() -> None:
    rank = make_rank(0, state=RankState.EXITED, exit=3)

    with pytest.raises(RankEnded, match="exited with status 3"):
        plan_panes(SETTINGS, "0", [rank], [rank])


def test_without_a_target_or_a_terminal_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)

    with pytest.raises(NeedsTarget, match="tmux needs a target"):
        open_panes(settled("tmux", Tmux))
    with pytest.raises(NoTerminal):
        open_panes(SETTINGS)


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["where"],
        ["interrupt"],
        ["eval", "x"],
        ["release"],
        ["--json"],
        ["--plain"],
        ["--all"],
        ["--every", "1"],
    ],
)
def test_what_is_another_action_is_refused(words: list[str]) -> None:
    with pytest.raises(BadInput) as caught:
        settled(shlex.join(["tmux", "0-3", *words]), Tmux)
    assert caught.value.exit_status == 2
