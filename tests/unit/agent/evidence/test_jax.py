"""Computations of a stand-in for JAX that its callers wait for; tests/full/frameworks/test_jax.py has the real one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dbg_agent.evidence import unrecorded as jax
from dbg_wire.records.evidence import CollectiveSeen, GroupSeen


class Job(SimpleNamespace):
    """One process of a job of JAX; a call notes in ``seen`` what is reported of its caller."""

    seen = ""

    def note(self, *_: object) -> None:
        self.seen = jax.awaited(sys._getframe(1))


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    """Return a job whose functions are classes of jaxlib, as the compiled ones of JAX are."""
    job = Job()
    function = type("PjitFunction", (), {"__call__": job.note, "__module__": "jaxlib._jax"})
    array = type("ArrayImpl", (), {"block_until_ready": job.note, "copy": job.note, "__module__": "jaxlib._jax"})
    job.step, job.array = function(), array()
    state = SimpleNamespace(client=object(), num_processes=3)
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax._src.distributed", SimpleNamespace(global_state=state))
    job.state = state
    return job


CALLS: dict[str, tuple[Callable[[Any], None], str]] = {
    "a compiled function": (lambda job: job.step(1), "job.step"),
    "an array that isn't ready": (lambda job: job.array.block_until_ready(), "job.array.block_until_ready"),
    "another method": (lambda job: job.array.copy(), ""),
    "another function": (lambda job: job.note(), ""),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_waits_for_a_computation_is_shown_as_the_program_writes_it(job: Job, name: str) -> None:
    call, expected = CALLS[name]
    call(job)
    assert job.seen == expected


def test_all_processes_are_members_of_a_computation(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "all_frames", lambda: {1: sys._getframe()})
    monkeypatch.setattr(jax, "awaited", lambda _frame: "step")
    _, group, call = jax.jax_seen()
    assert isinstance(group, GroupSeen)
    assert isinstance(call, CollectiveSeen)
    assert (group.members, group.size, call.group, call.name) == ("0-2", 3, group.name, "step")


@pytest.mark.parametrize("facts", [{"client": None}, {"num_processes": 1}])
def test_one_process_waits_for_no_other(job: Job, facts: dict[str, object]) -> None:
    vars(job.state).update(facts)
    assert jax.jax_seen() == []
