"""MPI calls on the stacks of a stand-in for mpi4py; tests/full/torch/test_collectives_seen.py has the real one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dbg_agent.evidence import unrecorded as mpi
from dbg_agent.frames.expressions import UNRESOLVED, Expression
from dbg_agent.frames.variables import UNKNOWN
from dbg_wire.records.evidence import Activity, ActivityInfo, CollectiveSeen, GroupSeen

MULTIPLE, SERIALIZED = 3, 2


class Group:
    """A group of processes."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks

    def Get_size(self) -> int:  # noqa: N802 - mpi4py's name
        return len(self.ranks)

    def Free(self) -> None:  # noqa: N802
        pass

    @staticmethod
    def Translate_ranks(group: Group, numbers: list[int], world: Group) -> list[int]:  # noqa: N802
        return [world.ranks.index(group.ranks[number]) for number in numbers]


class Comm:
    """A communicator whose methods note what is seen of their own callers."""

    def __init__(self, name: str, *ranks: int, see: Callable[[Any], None] | None = None) -> None:
        self.name, self.ranks, self.see = name, ranks, see

    def __bool__(self) -> bool:
        return bool(self.ranks)

    def Get_name(self) -> str:  # noqa: N802
        return self.name

    def Get_group(self) -> Group:  # noqa: N802
        return Group(self.ranks)

    def _call(self, *_: object, **__: object) -> None:
        assert self.see is not None
        self.see(sys._getframe(1))

    Allreduce = bcast = recv = Send = send = _call


class Request:
    """A request of mpi4py."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a job of four processes: its communicators, and what was seen during the last call."""
    job = SimpleNamespace(records=None, level=MULTIPLE)
    module = ModuleType(mpi.MODULE)

    def see(frame: Any) -> None:
        job.records = list(mpi.thread_seen(module, frame, may_ask=mpi.may_be_asked(module)))

    job.world = Comm("MPI_COMM_WORLD", 0, 1, 2, 3, see=see)
    job.part = Comm("MPI COMMUNICATOR 3 SPLIT FROM 0", 1, 3, see=see)
    vars(module).update(
        {"Comm": Comm, "Request": Request, "Group": Group, "COMM_WORLD": job.world, "THREAD_MULTIPLE": MULTIPLE},
        Is_initialized=lambda: True,
        Is_finalized=lambda: False,
        Query_thread=lambda: job.level,
    )
    job.module = module
    monkeypatch.setitem(sys.modules, mpi.MODULE, module)
    return job


def test_a_collective_is_reported_with_its_communicator(seen: SimpleNamespace) -> None:
    seen.part.Allreduce(1, 2)

    group, call = seen.records
    name = "MPI COMMUNICATOR 3 SPLIT FROM 0"
    assert group == GroupSeen(library="mpi4py", name=f"{name} 1,3", title=name, members="1,3", size=2, backend="mpi")
    assert (call.group, call.name, call.sequence, call.peer) == (group.name, "Allreduce", None, None)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda part: part.Send(b"", 1, tag=5), (3, False, 5, None)),
        (lambda part: part.send(b"", 1), (3, False, 0, None)),
        (lambda part: part.recv(None, 0, 12), (1, True, 12, None)),
        (lambda part: part.recv(source=0), (1, True, -1, None)),
        (lambda part: part.recv(source=7), (None, True, -1, None)),
        (lambda part: part.bcast(b""), (None, False, None, 1)),
        (lambda part: part.bcast(b"", root=1), (None, False, None, 3)),
    ],
)
def test_partners_and_roots_are_ranks_of_the_whole_job(
    seen: SimpleNamespace, call: Callable[[Any], None], expected: tuple[int | None, bool, int | None, int | None]
) -> None:
    call(seen.part)
    record = seen.records[1]
    assert (record.peer, bool(record.is_receive), record.tag, record.root) == expected


def test_no_communicator_is_asked_without_thread_multiple(
    seen: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen.level = SERIALIZED
    monkeypatch.setattr(Comm, "Get_name", None)
    monkeypatch.setattr(Comm, "Get_group", None)
    seen.world.bcast(1)
    assert [(type(one), one.name) for one in seen.records] == [(GroupSeen, "MPI_COMM_WORLD"), (CollectiveSeen, "bcast")]
    assert seen.records[0].size is None
    seen.part.bcast(1)
    assert [(one.name, one.group) for one in seen.records] == [("bcast", "")]


def test_any_call_of_mpi4py_is_an_mpi_wait(seen: SimpleNamespace) -> None:
    window = type("Win", (), {"__module__": mpi.MODULE})()
    derived = type("MyComm", (Comm,), {})("mine")

    def wait(owner: object, name: str = "Fence") -> ActivityInfo | None:
        return mpi.mpi_wait(sys._getframe(), Expression(f"one.{name}", UNKNOWN, "one", owner, name), None)

    of_mpi = {wait(one) for one in (window, derived, Request(), seen.module)}
    assert of_mpi == {ActivityInfo(what=Activity.MPI, name="one.Fence")}
    assert not any(wait(one) for one in (sys, UNKNOWN, "text", None))
    assert wait(Request(), "Wait") == ActivityInfo(what=Activity.MPI_REQUEST, name="one.Wait")


def test_a_program_without_mpi4py_has_no_mpi_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, mpi.MODULE, raising=False)
    assert mpi.mpi_seen() == []
    assert not mpi.mpi_wait(sys._getframe(), UNRESOLVED, None)


def test_the_source_names_its_limitation(seen: SimpleNamespace) -> None:
    assert "THREAD_MULTIPLE" not in mpi.mpi_seen()[0].limitation  # type: ignore[union-attr]
    seen.level = SERIALIZED
    assert "without THREAD_MULTIPLE" in mpi.mpi_seen()[0].limitation  # type: ignore[union-attr]
