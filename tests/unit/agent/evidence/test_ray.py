"""Actors of a stand-in for Ray whose results a thread waits for; tests/full/frameworks/test_ray.py has the real one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from dbg_agent.evidence import library_waits as ray
from dbg_agent.evidence.library_waits import library_wait
from dbg_agent.evidence.stacks import SeenThread
from dbg_wire.records.evidence import Activity, ActivityInfo

HERE = "10.0.0.1"

ACTORS = {
    "0a": {"ActorClassName": "Tool", "State": "ALIVE", "Pid": os.getppid(), "Address": {"IPAddress": HERE}},
    "0b": {"ActorClassName": "Critic", "State": "ALIVE", "Pid": 4711, "Address": {"IPAddress": "10.0.0.2"}},
    "0c": {"ActorClassName": "Reward", "State": "PENDING_CREATION", "Pid": 0, "Address": {"IPAddress": ""}},
}
"""Ray's table of actors, by their ids."""


class Id(str):
    """The id of an actor; that of a task has none."""

    def hex(self) -> str:
        return str(self)

    def is_nil(self) -> bool:
        return not self


class Ref(str):
    """A result that an actor is to return."""

    def task_id(self) -> Ref:
        return self

    def actor_id(self) -> Id:
        return Id(self.partition(" ")[0])


class Core:
    """Ray's own code in a process, which knows which results are there."""

    def wait(self, refs: Sequence[Ref], count: int, timeout: int, fetch: bool) -> tuple[list[Ref], list[Ref]]:
        return [ref for ref in refs if "ready" in ref], [ref for ref in refs if "ready" not in ref]


@pytest.fixture(autouse=True)
def _ray(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = SimpleNamespace(global_worker=SimpleNamespace(core_worker=Core(), node_ip_address=HERE))
    monkeypatch.setitem(sys.modules, "ray._private.worker", worker)
    monkeypatch.setitem(sys.modules, "ray._private.state", SimpleNamespace(actors=ACTORS.__getitem__))


RESULTS = (["0a"], ["0a", "0b", "0a again"], ["0a ready", "0c"], ["0a ready"], ["", "0z unknown"])
"""Lists of results, some of which are there; the last one has one of a task, and one of an actor without a row."""


def test_actors_with_missing_results_are_reported() -> None:
    waits = [ray.pending_actors(ActivityInfo(what=Activity.RAY_GET), [Ref(ref) for ref in refs]) for refs in RESULTS]
    assert [(does.names, [one.pid for one in does.processes]) for does, _ in waits] == [
        (("Tool",), [os.getppid()]),
        (("Tool", "Critic"), [os.getppid(), 0]),
        (("Reward",), [0]),
        ((), []),
        ((), []),
    ]
    assert [holder for _, holder in waits] == [os.getppid(), os.getppid(), None, None, None]


def get_objects(object_refs: list[Ref]) -> list[SeenThread]:
    frame = sys._getframe()
    return [SeenThread(ident=1, name="MainThread", frames=[frame], is_main=True, is_daemon=False, native=None)]


def test_a_thread_in_ray_get_waits_for_the_process_of_the_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    # In the stand-in the function is one of the test, whose file is not a library's.
    monkeypatch.setattr("dbg_agent.evidence.library_waits.is_users_file", lambda _file: False)
    monkeypatch.setitem(globals(), "__name__", "ray._private.worker")
    threads = get_objects([Ref("0b"), Ref("0a")])
    wait = library_wait(threads[0], threads)
    assert wait is not None
    assert wait.ask is not None
    assert wait.ask()[1] == os.getppid()
