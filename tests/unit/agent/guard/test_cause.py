"""Who is told to have ended a process by a signal; real kills are in test_causes of the integration tests."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dbg_agent.guard.cause import TimeLimit, cause_of_end, shown_bytes, time_limit
from dbg_agent.guard.watched import Ancestor, Memory
from tests.conftest import Approved

GIB = 1 << 30


class Told(Memory):
    """A memory of which the test says everything."""

    def __init__(self, *, has_run_out: bool = False, limit: int | None = None) -> None:
        super().__init__(2**22)
        self.held = 7 * GIB
        self._said = has_run_out, limit

    def has_run_out(self) -> bool:
        return self._said[0]

    def limit(self) -> int | None:
        return self._said[1]


def cause(number: int, memory: Memory | None = None, **changes: Any) -> str:
    told: dict[str, Any] = {"above": (), "environ": {}, "uptime": 1000.0, "now": 1_800_000_000.0, **changes}
    above, environ = told.pop("above"), told.pop("environ")
    return cause_of_end(number, memory or Told(), above, environ, **told)


def test_the_out_of_memory_killer_is_told_with_limit_and_size(approved: Approved) -> None:
    said = cause(signal.SIGKILL, Told(has_run_out=True, limit=8 * GIB))
    approved(said)
    approved(cause(signal.SIGKILL, Told(has_run_out=True)), "2")
    assert cause(signal.SIGTERM, Told(has_run_out=True)) == ""
    assert cause(signal.SIGKILL) == ""


@pytest.mark.parametrize(
    ("number", "uptime", "is_told"),
    [(15, 1060.1, True), (9, 1090.0, True), (15, 1050.0, False), (15, 1300.0, False), (11, 1060.1, False)],
)
def test_a_timeout_above_the_rank_is_told_when_its_time_is_up(number: int, uptime: float, is_told: bool) -> None:
    above = [Ancestor(9, ["timeout", "1m", "torchrun", "train.py"], 1000.0)]
    assert cause(number, above=above, uptime=uptime) == ("from `timeout 1m`, whose time was up" if is_told else "")


@pytest.mark.parametrize(("late", "is_told"), [(-10, False), (0, True), (170, True), (200, False)])
def test_slurms_time_limit_is_told(late: int, is_told: bool) -> None:
    said = cause(signal.SIGKILL, environ={"SLURM_JOB_END_TIME": "1800000000"}, now=1_800_000_000.0 + late)
    assert said.startswith("from SLURM: the time limit of the job was ") is is_told
    assert cause(signal.SIGKILL, environ={"SLURM_JOB_END_TIME": "soon"}) == ""


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("timeout 60 python", TimeLimit("timeout 60", 60, 15)),
        ("timeout -k 5 -s INT 1.5m python -k 3", TimeLimit("timeout -k 5 -s INT 1.5m", 90, 2)),
        ("timeout --signal=SIGUSR1 --foreground 2h x", TimeLimit("timeout --signal=SIGUSR1 --foreground 2h", 7200, 10)),
        ("timeout -s9 -k1 .5 x", TimeLimit("timeout -s9 -k1 .5", 0.5, 9)),
        ("timeout 0 x", None),
        ("timeout", None),
        ("timeout --help", None),
        ("timeout -s", None),
        ("timeout later x", None),
    ],
)
def test_the_command_line_of_timeout_is_read(words: str, limit: TimeLimit | None) -> None:
    assert time_limit(words.split()) == limit


def test_bytes_are_told_as_people_say_them() -> None:
    assert [shown_bytes(size) for size in (500, 2048, 3 << 20, 8 * GIB, 3000 * GIB)] == [
        "0.5 KiB",
        "2.0 KiB",
        "3.0 MiB",
        "8.0 GiB",
        "3000.0 GiB",
    ]
