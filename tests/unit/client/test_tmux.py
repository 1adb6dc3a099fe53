"""The arguments of tmux for a window with a pane for each rank."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.tmux import MAX_PANES, attach_words, literal, window
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import RankState
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import make_rank


def test_each_rank_has_a_pane_that_names_it_with_its_job() -> None:
    ranks = [make_rank(number, job="-1.0") for number in range(3)]
    other = make_rank(0, job="other", key="other")

    words = window("new-window", [["-e", "DBG_HOME=/h", *each] for each in attach_words("all", ranks, [*ranks, other])])

    made = [list(command) for is_end, command in groupby(words, ";".__eq__) if not is_end]
    panes = made[::2]
    assert [pane[0] for pane in panes] == ["new-window", "split-window", "split-window"]
    assert all("DBG_HOME=/h" in pane for pane in panes)
    assert [pane[-2:] for pane in panes] == [["--", f"-1.0/{rank.address}"] for rank in ranks]
    assert made[1::2] == [["select-layout", "tiled"]] * 3


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

    assert all(("--follow" in words) == follows for words in attach_words("all", ranks, ranks))


def taken_by_tmux(argument: str) -> tuple[str, bool]:
    """Return the argument as tmux's own parser takes it, and whether it ends the command."""
    if not argument.endswith(";"):
        return argument, False
    if argument.endswith("\\;"):
        return f"{argument[:-2]};", False
    return argument[:-1], True


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_any_argument_reaches_the_command_unchanged(word: str) -> None:
    assert taken_by_tmux(literal(word)) == (word, False)


def test_more_panes_than_can_be_read_are_refused() -> None:
    ranks = [make_rank(number) for number in range(MAX_PANES + 1)]

    attach_words("all", ranks[:-1], ranks)
    with pytest.raises(BadInput):
        attach_words("all", ranks, ranks)
