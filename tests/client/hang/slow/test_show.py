from __future__ import annotations

import pytest

from dbg_client.hang.slow.explain import find
from dbg_client.hang.slow.samples import sampled_runs
from dbg_client.hang.slow.show import MAX_BARS, show_findings, slow_document
from dbg_client.views.table import text_width
from dbg_wire.records.ranks import Place
from dbg_wire.records.samples import SampledPlace
from tests.client.hang.slow.simulated import Group, Job

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e"


def late(ranks: int = 16, culprit: int = 11, title: str = "dp_0") -> Job:
    """Return a job in which one rank is late."""
    return Job([Group(title, range(ranks), lambda rank, step: 0.31 * (rank == culprit) + 1e-4 * rank, pause=1.6)])


def test_a_sentence_comes_first_then_the_table_and_the_chart() -> None:
    shown = show_findings([late().found()], color=False, columns=80)
    assert shown.splitlines() == [
        "4711.0: rank 11 (h1) comes last in 50 of 50 all_reduce of dp_0, by 310 ms; a",
        "    step takes 1.9 s instead of 1.6",
        "try: dbg-attach interrupt 11        (breaks in, and opens the debugger there)",
        "",
        "GROUP  LAST  TIMES                BY      LOST   STEP   RANKS",
        "dp_0   11    50 of 50 all_reduce  310 ms  16.2%  1.9 s  0-15",
        "",
        "arrivals in dp_0 after the first rank, median of 50 all_reduce",
        "  0-10,12-15  0.7 ms",
        f"  11          311 ms  {'=' * 57}",
    ]


def test_without_a_terminal_there_is_no_chart_and_no_line_is_broken() -> None:
    shown = show_findings([late().found()], color=False)
    assert "arrivals" not in shown
    assert shown.count("\n") == 5


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_table_and_chart_fit_into_the_terminal(columns: int) -> None:
    job = Job([Group(f"group_{n}" * 4, range(64), lambda rank, step: 0.01 * rank) for n in range(3)])
    _, table, chart = show_findings([job.found()], color=False, columns=columns).split("\n\n")
    assert max(map(text_width, (*table.splitlines(), *chart.splitlines()[1:]))) <= columns


def test_a_chart_of_many_ranks_has_few_bars() -> None:
    job = Job([Group("dp_0", range(500), lambda rank, step: 0.001 * rank, steps=10)])
    chart = show_findings([job.found()], color=False, columns=80).split("\n\n")[-1]
    assert 2 < len(chart.splitlines()) <= MAX_BARS + 1


def test_what_ranks_tell_can_do_nothing_to_a_terminal() -> None:
    job = late(4, 2, title=EVIL)
    job.rows[2] = [SampledPlace(frames=(Place(file=f"/{EVIL}", line=1, function=EVIL),), times=tuple(range(40)))]
    found = [job.found()]
    shown = show_findings(found, color=False, columns=80)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_jobs_are_told_apart() -> None:
    ranks = [*late(4, 1).ranks(), *(rank.replace(job="B", key=f"b{rank.rank}") for rank in late(4, 3).ranks())]
    answers = [*late(4, 1).answers(), *(one.replace(key=f"b{one.key}") for one in late(4, 3).answers())]
    found = [find(run, several_jobs=True) for run in sampled_runs(ranks, answers, {})]
    shown = show_findings(found, color=False)
    assert "JOB" in shown
    assert "B: rank 3 (h1) comes last" in shown


def test_the_document_has_figures_for_programs() -> None:
    document = slow_document([late().found()], 10.0)
    verdicts, groups = document["verdicts"], document["groups"]
    assert isinstance(verdicts, list)
    assert isinstance(groups, list)
    assert (document["asked"], document["answered"], document["seconds"]) == (16, 16, 10.0)
    verdict = verdicts[0]
    assert {name: verdict[name] for name in ("kind", "certainty", "ranks", "group", "times", "count")} == {
        "kind": "late",
        "certainty": "sure",
        "ranks": "11",
        "group": "dp_0",
        "times": 50,
        "count": 50,
    }
    assert verdict["by"] == pytest.approx(0.31, abs=0.002)
    assert groups[0]["arrivals"] == [
        {"ranks": "0-10,12-15", "behind": pytest.approx(0.0008, abs=0.0002)},
        {"ranks": "11", "behind": pytest.approx(0.311, abs=0.001)},
    ]


def test_nothing_told_is_a_sentence() -> None:
    assert show_findings([], color=False) == "no rank with an agent could tell anything\n"
