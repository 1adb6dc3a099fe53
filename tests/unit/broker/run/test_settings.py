"""The settings of ``run``, and their checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbg_broker.run.settings import Option, RunOptions, RunSettings, check, command_of
from dbg_wire.errors import BadInput
from tests.conftest import Approved

COMMAND = ("python", "train.py")


def told(options: RunOptions | None = None, *, command: tuple[str, ...] = COMMAND, again: bool = False) -> RunSettings:
    return RunSettings(home="/h", directory="/work/it", options=options or RunOptions(), command=command, again=again)


def test_the_users_files_are_named_from_the_directory_of_the_run() -> None:
    options = RunOptions(commands="../first.pdb", output="logs/./one.out", stop_at=("train.py:7",))
    assert check(told(options)).options == replace(options, commands="/work/first.pdb", output="/work/it/logs/one.out")
    absolute = RunOptions(commands="/a/first.pdb", output="/dev/null")
    assert check(told(absolute)).options == absolute


@pytest.mark.parametrize(
    "options",
    [
        RunOptions(),
        RunOptions(stop_at=("a.py:1", "a b.py:20, x > 1"), stop_in=("a.b:C.m",)),
        RunOptions(ranks="0-3,7", rank_filter="gpu1:*,!5", engine="pdb", post_mortem=True),
        RunOptions(collective_timeout="600", hang_after="0", listen="0.0.0.0:0"),
        RunOptions(hang_after="300", on_hang="end"),
    ],
)
def test_what_can_be_used_stays_as_typed(options: RunOptions) -> None:
    assert check(told(options)) == told(options)


@pytest.mark.parametrize(
    "options",
    [
        RunOptions(stop_at=("train.py",)),
        RunOptions(stop_at=("train.py:0",)),
        RunOptions(stop_at=("train.py:3, x =",)),
        RunOptions(stop_in=("module",)),
        RunOptions(stop_at=tuple(f"a.py:{line}" for line in range(1, 101)), stop_in=("a:f",)),
        RunOptions(ranks="3-x"),
        RunOptions(engine="gdb\x1b"),
        RunOptions(hang_after="soon"),
        RunOptions(hang_after="300", on_hang="kill"),
        RunOptions(on_hang="report"),
        RunOptions(collective_timeout="ten"),
        RunOptions(collective_timeout="nan"),
        RunOptions(collective_timeout="-1"),
        RunOptions(collective_timeout="1e8"),
        RunOptions(rank_filter="other/0-3"),
        RunOptions(rank_filter="[["),
        RunOptions(listen="h:x"),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_value(approved: Approved, options: RunOptions) -> None:
    with pytest.raises(BadInput) as refused:
        check(told(options))
    approved(str(refused.value))
    assert str(refused.value).isprintable()


def test_one_of_a_command_and_again_is_given(approved: Approved) -> None:
    assert check(told(command=(), again=True)).again
    with pytest.raises(BadInput) as caught:
        check(told(again=True))
    approved(str(caught.value))
    with pytest.raises(BadInput, match="no command"):
        check(told(command=()))


def test_what_is_given_now_goes_before_what_was_typed_last_time() -> None:
    last = RunOptions(stop_at=("a.py:1",), stop_in=("a:f",), ranks="0", engine="pdb", post_mortem=True)
    assert last.with_changes(RunOptions()) == last
    assert last.with_changes(RunOptions(ranks="1", output="/o")) == replace(last, ranks="1", output="/o")


def test_an_option_of_the_broker_replaces_those_of_its_name() -> None:
    last = RunOptions(broker=(Option("--allow", "::1"), Option("--audit-input"), Option("--allow", "::2")), pty=True)
    changed = last.with_changes(RunOptions(broker=(Option("--allow", "::3"),), pty=False))
    assert changed == RunOptions(broker=(Option("--audit-input"), Option("--allow", "::3")), pty=False)
    assert last.with_changes(RunOptions()) == last


@pytest.mark.parametrize("given", [RunOptions(stop_at=("b.py:2",)), RunOptions(stop_in=("b:g",))])
def test_new_stops_replace_all_stops(given: RunOptions) -> None:
    now = RunOptions(stop_at=("a.py:1",), stop_in=("a:f",), ranks="0").with_changes(given)
    assert now == replace(given, ranks="0")


@pytest.mark.parametrize(
    ("words", "behind", "command"),
    [
        ([], ["srun", "--", "x"], ("srun", "--", "x")),
        (["srun", "-n2"], None, ("srun", "-n2")),
        (["srun"], ["python", "--", "x"], ("srun", "--", "python", "--", "x")),
        ([], [], ()),
        ([], None, ()),
    ],
)
def test_the_first_double_dash_is_ours_where_it_stands_before_the_command(
    words: list[str], behind: list[str] | None, command: tuple[str, ...]
) -> None:
    assert command_of(words, behind) == command
