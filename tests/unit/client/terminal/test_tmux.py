"""The arguments of tmux for a window with a pane for each rank."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.terminal.tmux import MAX_PANES, attach_words, literal, plain_name, window
from dbg_client.terminal.verb import Attach, Tmux
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import RankInfo, RankState
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

    pane = settled(shlex.join([*attach_words(settings, follow=True), "--", "-job/h:1"]), Attach)

    asked = settled(shlex.join([*words, "--follow", "--", "-job/h:1"]), Attach)
    assert pane == asked


def commands(ranks: Sequence[RankInfo], known: Sequence[RankInfo] = ()) -> list[list[str]]:
    """Return the commands of tmux, each as a list of words."""
    words = window(SETTINGS, "new-window", ranks, known or ranks, ["-e", "DBG_HOME=/h"])
    return [list(command) for is_end, command in groupby(words, ";".__eq__) if not is_end]


def test_each_rank_has_a_pane_that_names_it_with_its_job() -> None:
    ranks = [make_rank(number, job="-1.0") for number in range(3)]
    other = make_rank(0, job="other", key="other")

    made = commands(ranks, [*ranks, other])

    panes = [command for command in made if command[0] in ("new-window", "split-window")]
    assert [pane[0] for pane in panes] == ["new-window", "split-window", "split-window"]
    assert all("DBG_HOME=/h" in pane for pane in panes)
    assert [pane[-2:] for pane in panes] == [["--", f"-1.0/{rank.address}"] for rank in ranks]
    titles = [command[-1] for command in made if command[0] == "select-pane"]
    assert titles == [f"-1.0/{ranks[0].address}", ranks[1].address, ranks[2].address]


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

    assert sum("--follow" in command for command in commands(ranks)) == follows * len(ranks)


def taken_by_tmux(argument: str) -> tuple[str, bool]:
    """Return the argument as tmux's own parser takes it, and whether it ends the command."""
    if not argument.endswith(";"):
        return argument, False
    if argument.endswith("\\;"):
        return f"{argument[:-2]};", False
    return argument[:-1], True


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_any_argument_reaches_the_command_as_it_is(word: str) -> None:
    assert taken_by_tmux(literal(word)) == (word, False)


@given(st.text())
def test_a_name_is_no_format_that_runs_commands(text: str) -> None:
    for hostile in (text, f"#({text})", f"{text};"):
        assert "#" not in plain_name(hostile)
        assert plain_name(hostile).isprintable()


def test_more_panes_than_can_be_read_are_refused() -> None:
    ranks = [make_rank(number) for number in range(MAX_PANES + 1)]

    commands(ranks[:-1])
    with pytest.raises(BadInput):
        commands(ranks)
