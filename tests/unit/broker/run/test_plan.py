"""The plan of a run, made from the typed command line and the remembered run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbg_broker.run.plan import Plan, make_plan
from dbg_broker.run.remembered import Remembered
from dbg_broker.run.settings import RunOptions, RunSettings
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.records.stop_points import StopAt, StopIn
from tests.conftest import Approved

COMMAND = ("python", "train.py", "--name", "a b")
LINES = ["import x", "", "def main():", "    step()", "    end()"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    write(path, LINES)
    return path


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def typed(source: Path, **options: object) -> RunSettings:
    return RunSettings(home="/h", directory=str(source.parent), options=RunOptions(**options), command=COMMAND)  # type: ignore[arg-type]


def again(source: Path, **options: object) -> RunSettings:
    return replace(typed(source, **options), command=(), again=True)


def ended(plan: Plan, *breakpoints: Breakpoint, rank: int | None = None) -> Remembered:
    return plan.to_remember(breakpoints, rank)


def places(plan: Plan) -> list[str]:
    return [str(stop).split("/")[-1].removeprefix("--stop-at ").removeprefix("--stop-in ") for stop in plan.stops]


# ------------------------------------------------------------------------------------------------------ a new command


def test_what_was_typed_is_done(source: Path) -> None:
    plan = make_plan(typed(source, stop_at=("train.py:4, x",), stop_in=("a:f",), ranks="0"), None)

    assert (plan.command, plan.options.ranks, plan.notes) == (COMMAND, "0", ())
    assert plan.stops == [StopAt(file="train.py", line=4, condition="x"), StopIn(module="a", function="f")]


def test_breakpoints_of_another_command_are_not_set(source: Path) -> None:
    last = ended(make_plan(typed(source), None), Breakpoint(file=str(source), line=4))
    assert make_plan(typed(source), last).stops == []


def test_the_rank_of_the_last_run_is_preferred_by_the_same_command_alone(source: Path) -> None:
    last = ended(make_plan(typed(source, ranks="0-3"), None), rank=3)

    assert make_plan(typed(source, ranks="0-3"), last).prefer == 3
    assert make_plan(typed(source, ranks="0-2"), last).prefer is None
    assert make_plan(replace(typed(source, ranks="0-3"), command=("python",)), last).prefer is None


def test_a_line_that_is_not_there_is_refused_before_anything_starts(approved: Approved, source: Path) -> None:
    last = ended(make_plan(typed(source), None))
    for settings in (typed(source, stop_at=("train.py:6",)), again(source, stop_at=("train.py:6",))):
        with pytest.raises(BadInput) as caught:
            make_plan(settings, last)
        approved(str(caught.value))


# -------------------------------------------------------------------------------------------------------------- again


def test_the_same_is_done_again_and_said_as_it_would_be_typed(source: Path) -> None:
    first = make_plan(typed(source, stop_at=("train.py:4, x > 1",), stop_in=("a:f",), engine="pdb"), None)
    second = make_plan(again(source), ended(first, rank=2))

    assert (second.command, second.options, second.stops) == (first.command, first.options, first.stops)
    assert second.prefer == 2
    assert second.notes == (
        "again: dbg-broker run --stop-at 'train.py:4, x > 1' --stop-in a:f -- python train.py --name 'a b'",
    )


def test_what_a_hang_leads_to_is_repeated_and_needs_the_time(source: Path) -> None:
    first = make_plan(typed(source, hang_after="300", on_hang="report"), None)
    second = make_plan(again(source, on_hang="end"), ended(first))
    assert (second.options.hang_after, second.options.on_hang) == ("300", "end")
    without = make_plan(typed(source), None)
    with pytest.raises(BadInput, match="add --hang-after S"):
        make_plan(again(source, on_hang="end"), ended(without))


def test_stops_and_breakpoints_follow_their_lines_and_it_is_said(source: Path) -> None:
    first = make_plan(typed(source, stop_at=("train.py:4",)), None)
    last = ended(first, Breakpoint(file=str(source), line=5, condition="y", text=LINES[4].strip()))
    write(source, ["import os", *LINES])
    second = make_plan(again(source), last)

    assert places(second) == ["train.py:5", "train.py:6, y"]
    assert second.options.stop_at == ("train.py:5",)
    assert second.notes[:2] == ("train.py:4 is line 5 now", f"{source}:5 is line 6 now")


def test_a_line_that_was_changed_is_known_by_its_new_text(source: Path) -> None:
    first = make_plan(typed(source, stop_at=("train.py:4",)), None)
    last = ended(first, Breakpoint(file=str(source), line=5, text=LINES[4].strip()))
    changed = [*LINES[:3], "    step(1)", "    end(1)"]
    write(source, changed)
    second = make_plan(again(source), last)
    assert places(second) == ["train.py:4", "train.py:5"]

    write(source, ["import os", *changed])
    assert places(make_plan(again(source), ended(second))) == ["train.py:5", "train.py:6"]


def test_new_stops_replace_the_old_ones_and_the_breakpoints(source: Path) -> None:
    first = make_plan(typed(source, stop_at=("train.py:4",), ranks="0-3"), None)
    last = ended(first, Breakpoint(file=str(source), line=5, text=LINES[4].strip()), rank=1)
    write(source, ["import os", *LINES])
    second = make_plan(again(source, stop_in=("a:f",)), last)

    assert second.stops == [StopIn(module="a", function="f")]
    assert (second.options.ranks, second.prefer) == ("0-3", 1)
    assert second.notes == ("again: dbg-broker run --stop-in a:f -- python train.py --name 'a b'",)
    assert make_plan(again(source), ended(second)).stops == second.stops


def test_notes_show_names_harmlessly(tmp_path: Path) -> None:
    source = tmp_path / "a\x1bb.py"
    write(source, LINES)
    first = make_plan(typed(source, stop_at=(f"{source}:4",)), None)
    write(source, ["import os", *LINES])
    second = make_plan(again(source), ended(first))

    assert len(second.notes) == 2
    assert all(note.isprintable() for note in second.notes)
