"""What a home keeps of a run that is gone: the hang in its output, and what the audit log tells of its job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.dumps.run_home import MAX_ENTRIES, MAX_EVIDENCE, audit_lines, hang_in

TOLD = """\
step 3
dbg-broker: no rank of train-7 has moved for 5 min
train-7: 3 of 4 ranks wait in all_reduce #4 of group default; rank 2 (gpu013) has not come
  2  running  train.py:20 wait_for_shard
try: dbg-attach interrupt 2        (breaks in, and opens the debugger there)
dbg-broker: the report is in /home/me/train-7.hang.txt; dbg-attach why reads it again
step 4
"""


def test_an_output_tells_its_last_hang() -> None:
    told = hang_in(f"{TOLD.replace('rank 2', 'rank 1')}{TOLD}".replace("\n", "\r\n"))
    assert told is not None
    verdict = told.verdict(["further"])
    assert (verdict.job, verdict.next) == ("train-7", None)
    assert verdict.sentence.endswith("rank 2 (gpu013) has not come")
    assert verdict.evidence == (
        "2  running  train.py:20 wait_for_shard",
        "the run's output tells it: no rank of train-7 has moved for 5 min",
        "further",
    )


@pytest.mark.parametrize(
    "head", ["all_reduce of train-7 times out in 50 s", "no rank of train-7 moves, and the scheduler ends it in 1 min"]
)
def test_a_hang_before_a_time_limit_is_one_as_well(head: str) -> None:
    told = hang_in(f"dbg-broker: {head}\ntrain-7: rank 2 has not come\n")
    assert told is not None
    assert (told.job, told.head, len(told.lines)) == ("train-7", head, 1)


def test_an_output_without_a_hang_tells_none() -> None:
    assert hang_in("step 3\ndbg-broker: job train-7, its output in x\n") is None
    assert hang_in("") is None


@given(st.text())
def test_what_a_job_prints_garbles_nothing(text: str) -> None:
    told = hang_in(f"dbg-broker: no rank of x\x1b has moved for {text}\n{text}")
    if told is not None:
        verdict = told.verdict([])
        assert verdict.sentence.isprintable()
        assert all(line.isprintable() for line in verdict.evidence)
        assert len(verdict.evidence) <= MAX_EVIDENCE + 1


def entry(at: float, what: str, **more: str) -> bytes:
    """Return a line of an audit log."""
    return json.dumps({"at": at, "what": what, "job": "train-7", **more}).encode() + b"\n"


def test_an_audit_log_tells_who_started_and_ended_a_job() -> None:
    logs = [
        entry(30.0, "question", action="kill", ranks="0-3", terminal="alice@login1"),
        entry(10.0, "run", text="torchrun train.py")
        + entry(20.0, "question", action="where", ranks="0-3")
        + entry(25.0, "interrupt", ranks="gpu013:2"),
        entry(40.0, "question", action="kill", ranks="0").replace(b"train-7", b"train-8"),
    ]
    told = [line.partition("  ")[2] for line in audit_lines(logs, "train-7")]
    assert told == ["started: torchrun train.py", "interrupt gpu013:2", "kill 0-3 by alice@login1"]


def test_a_damaged_or_hostile_log_is_passed_over() -> None:
    name = b'"train-7"'
    logs = [
        b"{" + name + b"\n[" + name + b"]\n" + b"[" * 100_000 + name,
        b'{"job": "train-7", "at": 1e300, "what": "run"}\n{"job": "train-7", "at": null, "what": "run"}',
        entry(1.0, "run", text="x\x1b[2J"),
    ]
    told = audit_lines(logs, "train-7")
    assert [line.isprintable() for line in told] == [True]


def test_of_many_entries_the_newest_are_told() -> None:
    log = b"".join(entry(float(number), "run", text=f"run {number}") for number in range(100))
    told = audit_lines([log], "train-7")
    assert len(told) == MAX_ENTRIES
    assert told[-1].endswith("run 99")
