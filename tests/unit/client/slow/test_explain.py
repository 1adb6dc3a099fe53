from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.slow.collective_timings import sampled_runs
from dbg_client.slow.evidence import LateRankLocation, Spot
from dbg_client.slow.explain import RunFindings, SlowVerdict, exit_status, find
from dbg_client.slow.lateness import Lateness
from dbg_client.slow.show import diagnoses, show_findings, slow_document
from dbg_client.why.show import Diagnosis
from dbg_client.why.verdict import Certainty
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.evidence import GroupSeen
from dbg_wire.records.ranks import Place, RankState
from dbg_wire.records.samples import (
    GroupArrivals,
    ProcessorUse,
    RankSample,
    SampledPlace,
    SampleRecord,
)
from tests.conftest import Approved
from tests.unit.client.slow.simulated import LOADING, REDUCING, Group, Job


def only(found: RunFindings) -> SlowVerdict:
    """Return the only verdict."""
    (verdict,) = found.verdicts
    return verdict


def samples(found: RunFindings) -> Diagnosis:
    """Return the only verdict in words."""
    ((_, diagnosis),) = diagnoses(found, several_jobs=False)
    return diagnosis


def looks(frames: tuple[Place, ...], count: int) -> list[tuple[tuple[Place, ...], list[float]]]:
    """Return so many looks at one place, all over the sampling."""
    return [(frames, [10.0 * number / count for number in range(count)])]


def test_the_place_of_a_late_rank_is_shown() -> None:
    late = Job([Group("dp_0", range(4), lambda rank, step: 0.1 * (rank == 2), pause=0.1)])
    # The others are there 0.1 s after a step's begin, and it comes 0.1 s later.
    late.places[2] = [
        (LOADING, [0.2 * step + 0.15 for step in range(40)]),
        (REDUCING, [0.2 * step + 0.05 for step in range(50)]),
    ]
    (rank,) = only(late.found()).late
    assert (rank.number, rank.where) == (2, LateRankLocation(((Spot(LOADING[-1]), 40),), 40))
    assert samples(late.found()).evidence[0] == "meanwhile, rank 2 is at load data.py:17 in 40 of 40 samples"


@pytest.mark.parametrize(
    ("path", "is_loading"), [("torch/utils/data/dataloader.py", True), ("torch/_tensor_str.py", False)]
)
def test_samples_within_a_library_count_at_the_users_line(path: str, is_loading: bool) -> None:
    late = Job([Group("dp_0", range(4), lambda rank, step: 0.1 * (rank == 2), pause=0.1)])
    main = REDUCING[0]
    late.places[2] = [
        ((main, Place(file=f"/site-packages/{path}", line=line, function="f")), [0.2 * step + 0.15])
        for line, step in enumerate(range(40))
    ]
    (rank,) = only(late.found()).late
    assert rank.where is not None
    assert rank.where.spots == ((Spot(main, is_loading), 40),)


def test_only_the_rank_that_makes_others_late_is_named() -> None:
    # Rank 0 waits for rank 1 in tp_0, and is late in dp_0 by that.
    tp = Group("tp_0", (0, 1), lambda rank, step: 0.2 * (rank == 1), pause=0.3)
    dp = Group("dp_0", (0, 2, 3, 4), lambda rank, step: 0.2 * (rank == 0), pause=0.3, start=0.01)
    assert only(Job([tp, dp]).found()).ranks == (1,)


def test_times_of_enqueueing_alone_give_a_likely_verdict() -> None:
    group = Group("dp_0", range(4), lambda rank, step: 0.1 * (rank == 2), backend="nccl")
    verdict = samples(Job([group]).found())
    assert verdict.certainty is Certainty.LIKELY
    assert "rank 2 (h1) seems to arrive last at" in verdict.sentence
    assert any("TORCH_NCCL_ENABLE_TIMING=1" in line for line in verdict.evidence)


def test_ranks_without_an_answer_are_named(approved: Approved) -> None:
    job = Job([Group("dp_0", range(4), lambda rank, step: 0.1 * (rank == 2))], silent=[3])
    approved(samples(job.found()).evidence)


@pytest.mark.parametrize(
    ("job", "kind", "status"),
    [
        (Job([Group("dp_0", range(4), lambda rank, step: 0.0004 * rank)]), Lateness.EVEN, 0),
        (Job([Group("dp_0", range(2), steps=20, start=-20.0)]), Lateness.UNKNOWN, 6),
        (Job([Group("dp_0", range(2))], silent=[0, 1]), Lateness.UNKNOWN, 6),
        (Job([Group("dp_0", range(2), lambda rank, step: 0.1 * rank)], hosts=("h1", "h2")), Lateness.UNKNOWN, 6),
        (Job([Group("dp_0", range(2))], state=RankState.STOPPED), Lateness.UNKNOWN, 6),
    ],
    ids=["nobody is late", "may hang", "no samples", "clocks", "in a debugger"],
)
def test_a_job_may_have_no_or_an_unknown_late_rank(approved: Approved, job: Job, kind: Lateness, status: int) -> None:
    found = job.found()
    assert (only(found).kind, exit_status(found.verdicts)) == (kind, status)
    verdict = samples(found)
    approved(f"{verdict.sentence}\n{verdict.next.command if verdict.next is not None else ''}")


@pytest.mark.parametrize("late", [(2,), (2, 3)])
def test_the_quota_of_a_late_rank_is_shown_as_evidence(approved: Approved, late: tuple[int, ...]) -> None:
    job = Job([Group("dp_0", range(8), lambda rank, step: 0.1 * (rank in late))])
    for number in range(8):
        job.samples[number] = {
            "processors": ProcessorUse(periods=100, throttled=83 if number in late else 0, quota=0.5)
        }
    approved("\n".join(one for one in samples(job.found()).evidence if "quota" in one))


def late(ranks: int = 16, culprit: int = 11, title: str = "dp_0") -> Job:
    """Return a job in which one rank is late."""
    return Job([Group(title, range(ranks), lambda rank, step: 0.31 * (rank == culprit) + 1e-4 * rank, pause=1.6)])


@pytest.mark.parametrize("columns", [80, None])
def test_the_sentence_precedes_the_table(approved: Approved, columns: int | None) -> None:
    found = late().found()
    verdict = only(found)
    assert (verdict.certainty, verdict.ranks, exit_status([verdict])) == (Certainty.SURE, (11,), 1)
    approved(show_findings([found], color=False, columns=columns))


def test_jobs_are_judged_separately() -> None:
    of_b = [rank.replace(identity=rank.identity.replace(job="B", key=f"b{rank.rank}")) for rank in late(4, 3).ranks()]
    answers = [*late(4, 1).answers(), *(one.replace(key=f"b{one.key}") for one in late(4, 3).answers())]
    found = [find(run) for run in sampled_runs([*late(4, 1).ranks(), *of_b], answers, {})]
    assert [only(one).ranks for one in found] == [(1,), (3,)]
    assert "\nB: rank 3 " in show_findings(found, color=False)


def test_the_json_document_has_numbers() -> None:
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
    assert (groups[0]["ranks"], groups[0]["times"], groups[0]["members"]) == ("11", 50, "0-15")


ANY_TEXT = st.text(max_size=12)
ANY_NUMBER = st.integers(-(2**53), 2**53)
ANY_COUNT = st.integers(0, 2**53)
ANY_SECONDS = st.one_of(st.none(), st.floats(0, 1e9))
ANY_FRAMES = st.lists(st.builds(Place, file=ANY_TEXT, line=st.integers(0, 10), function=ANY_TEXT), max_size=3).map(
    tuple
)


@st.composite
def any_rows(draw: st.DrawFn) -> tuple[SampleRecord, ...]:
    """Draw what a rank that lies may report, within the bounds of the wire."""
    sample = RankSample(
        clock=draw(ANY_COUNT),
        start=draw(ANY_COUNT),
        seconds=draw(st.floats(0, 1e6)),
        samples=draw(st.integers(0, 200)),
        processors=ProcessorUse(
            queued=draw(ANY_SECONDS),
            periods=draw(st.one_of(st.none(), ANY_COUNT)),
            throttled=draw(st.one_of(st.none(), ANY_COUNT)),
            quota=draw(ANY_SECONDS),
        ),
    )
    rows: list[SampleRecord] = [sample]
    for name in draw(st.lists(st.sampled_from(["0:gloo", "1:nccl"]), max_size=3)):
        rows.append(
            GroupSeen(library="torch", name=name, title=draw(ANY_TEXT), members=draw(st.sampled_from(["", "0-3", "x"])))
        )
        count = draw(st.integers(0, 6))
        column = st.lists(ANY_NUMBER, min_size=count, max_size=count).map(tuple)
        rows.append(
            GroupArrivals(
                group=name,
                start=draw(ANY_COUNT),
                calls=("all_reduce", draw(ANY_TEXT)),
                which=draw(st.lists(st.integers(0, 1), min_size=count, max_size=count).map(tuple)),
                sequences=draw(st.one_of(st.just(tuple(range(count))), column)),
                came=draw(column),
                took=draw(st.one_of(st.just(()), column)),
            )
        )
    times = st.lists(ANY_COUNT, max_size=5).map(tuple)
    rows += [SampledPlace(frames=draw(ANY_FRAMES), times=draw(times)) for _ in range(draw(st.integers(0, 3)))]
    return tuple(rows)


@given(st.lists(any_rows(), min_size=1, max_size=4), st.booleans())
def test_any_samples_are_shown_as_lines_of_printable_text(
    samples: list[tuple[SampleRecord, ...]], two_hosts: bool
) -> None:
    job = Job(
        [Group("dp_0", range(len(samples)), steps=0)],
        hosts=["h1", "h2", "h1", "h2"][: len(samples)] if two_hosts else (),
    )
    answers = [
        RankAnswer(key=rank.key, kind=Kind.VALUE, text="", rows=rows)
        for rank, rows in zip(job.ranks(), samples, strict=True)
    ]
    found = [find(run) for run in sampled_runs(job.ranks(), answers, {})]
    shown = show_findings(found, color=False, columns=80)
    assert all(line.isprintable() for line in shown.split("\n"))
    json.dumps(slow_document(found, 10.0), allow_nan=False)
