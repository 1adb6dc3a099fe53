"""The collectives and groups of torch, by the stacks of threads and by dumps in the form of its sources."""

from __future__ import annotations

import gc
import pickle
import sys
import time
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from dbg_agent.torch import calls as torch_calls
from dbg_agent.torch import collectives as torch_collectives
from dbg_agent.torch import flight_recorder
from dbg_agent.torch.calls import Call, calls_on_stacks, group_of, groups_being_created, process_groups, shape_of
from dbg_agent.torch.collectives import torch_seen
from dbg_agent.torch.flight_recorder import CallPlaces, LastStatus, Recorder, read, recorders_of
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place
from tests.conftest import Approved
from tests.support.approved import as_text
from tests.support.recorded import DUMPS, dump, pickled, raw
from tests.support.time_unit import seconds
from tests.unit.agent.torch.fake_torch import FakeTorch, ProcessGroup, Work


def during(torch: FakeTorch, call: Callable[[], None]) -> list[Call]:
    """Return the calls that are seen while this one goes on."""
    found: list[Call] = []
    vars(torch.module)["look"] = lambda: found.extend(calls_on_stacks(torch.module))
    call()
    return found


def p2p(name: str, tag: int = 0, **more: Any) -> Call:
    return Call(group=None, name=name, tensor="t", tag=tag, **more)


@pytest.mark.parametrize(
    ("name", "arguments", "named", "expected"),
    [
        ("all_reduce", (), {}, Call(group=None, name="all_reduce", tensor="t")),
        ("broadcast", (3,), {}, Call(group=None, name="broadcast", tensor="t", root=3)),
        ("broadcast", (), {"group_src": 1}, Call(group=None, name="broadcast", tensor="t", root=1, is_local=True)),
        ("broadcast", (), {}, Call(group=None, name="broadcast", tensor="t")),
        ("reduce", (), {"dst": 2}, Call(group=None, name="reduce", tensor="t", root=2)),
        ("recv", (2,), {}, p2p("recv", peer=2)),
        ("recv", (), {}, p2p("recv")),
        ("recv", (), {"group_src": 1}, p2p("recv", peer=1, is_local=True)),
        ("recv", (2,), {"tag": 12}, p2p("recv", 12, peer=2)),
        # A send is one call though it calls isend.
        ("send", (5,), {}, p2p("send", peer=5)),
        ("isend", (5,), {}, p2p("send", peer=5)),
    ],
)
def test_roots_and_partners_are_shown_as_the_caller_gave_them(
    torch: FakeTorch, name: str, arguments: tuple[int, ...], named: dict[str, int], expected: Call
) -> None:
    assert during(torch, lambda: getattr(torch.module, name)("t", *arguments, **named)) == [expected]
    # A thread that is elsewhere is in no call.
    assert calls_on_stacks(torch.module) == during(torch, torch.module.new_group) == []


def test_a_collective_has_its_group(torch: FakeTorch) -> None:
    torch.add("default_pg", 0, 1, 2)
    pair = torch.add("pair", 0, 2)
    groups = process_groups(torch.module)
    (of_pair,) = during(torch, lambda: torch.module.all_reduce("tensor", group=pair))
    assert group_of(of_pair, groups) == groups[1]
    (of_all,) = during(torch, lambda: torch.module.all_reduce("tensor"))
    assert group_of(of_all, groups) == groups[0]
    assert group_of(Call(group=object(), name="all_reduce"), groups) is None
    assert group_of(of_all, []) is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (([2, 0, 1],), [(0, 1, 2)]),
        (([0, 1], False, True), [(0, 1, 2, 3)]),
        (([0, 1], True, True), [(0, 1)]),
        ((None,), []),
        ((["0"],), []),
    ],
)
def test_a_group_being_created_is_shown_by_the_ranks_it_waits_for(
    torch: FakeTorch, arguments: tuple[object, ...], expected: list[tuple[int, ...]]
) -> None:
    seen: list[list[tuple[int, ...]]] = []
    vars(torch.module)["look"] = lambda: seen.append(groups_being_created(torch.module, (0, 1, 2, 3)))
    torch.module._new_group_with_tag(*arguments)
    assert seen == [expected]
    assert groups_being_created(torch.module, ()) == []


@pytest.mark.parametrize("name", ["all_reduce", "recv"])
def test_a_look_at_a_call_keeps_none_of_its_values_alive(torch: FakeTorch, name: str) -> None:
    class Tensor:
        pass

    def look() -> None:
        (call,) = calls_on_stacks(torch.module)
        assert isinstance(call.tensor, Tensor)

    # Its caller would hold an argument for as long as it runs. The look itself is in a circle with its own frames.
    lines = ("tensor = make()", "kept = ref(tensor)", "look()", "del tensor", "collect()", "return kept()")
    source = "\n    ".join([f"def {name}(tensor=None):", *lines])
    vars(torch.module).update(look=look, make=Tensor, ref=weakref.ref, collect=gc.collect)
    exec(source, vars(torch.module))  # noqa: S102 - the function must have the module's globals
    assert vars(torch.module)[name]() is None


def fails(*_arguments: object) -> None:
    raise SystemExit


def test_an_object_that_is_no_tensor_has_no_shape(torch: FakeTorch) -> None:
    tensor = type("Tensor", (), {"shape": (2, 3), "dtype": "torch.float32"})
    vars(torch.torch)["Tensor"] = tensor
    assert shape_of(tensor()) == (((2, 3),), ("float32",))
    assert shape_of(type("Ours", (tensor,), {"shape": property(fails)})()) == shape_of(None) == ((), ())


# -------------------------------------------------------------------------------------------------------------- groups


def test_groups_have_readable_names_and_global_ranks(torch: FakeTorch) -> None:
    torch.add("default_pg", 0, 1, 2, 3, sequence=7, config="cpu:gloo,cuda:nccl")
    torch.add("undefined", 3, 1)
    torch.add("mesh_dp", 1)
    torch.add("does_not_count", 0, sequence=None, config="")
    groups = process_groups(torch.module)
    assert [(one.name, one.title, one.ranks, one.sequence, one.backends) for one in groups] == [
        ("0", "default", (0, 1, 2, 3), 7, ("gloo", "nccl")),
        ("1", "1", (3, 1), 0, ("gloo",)),
        ("2", "mesh_dp", (1,), 0, ("gloo",)),
        ("3", "does_not_count", (0,), None, ()),
    ]


def test_objects_of_the_program_in_torchs_tables_are_skipped_and_not_called(torch: FakeTorch) -> None:
    ours = type("Ours", (ProcessGroup,), {"group_desc": property(fails, lambda self, value: None)})("", 0)
    torch.names[ours], torch.ranks[ours] = "5", {0: 0}
    torch.names[torch.add("broken", 0)] = object()
    torch.ranks[torch.add("members", 0)] = [0]
    torch.config[torch.add("kept", 0)] = object()
    assert [group.title for group in process_groups(torch.module)] == ["kept"]


@pytest.fixture(autouse=True)
def _recorders(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in torch_collectives.BUFFER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch_collectives, "_before", LastStatus())
    record(monkeypatch)


def record(monkeypatch: pytest.MonkeyPatch, **dumps: bytes) -> None:
    """Let the recorders of these backends return these dumps."""
    recorders = [Recorder(name, lambda data=data: data, lambda data=data: data) for name, data in dumps.items()]  # type: ignore[misc]
    monkeypatch.setattr(torch_collectives, "recorders_of", lambda native: recorders)


def groups() -> dict[str, GroupSeen]:
    """Return the groups that are found, by their titles."""
    return {one.title: one for one in torch_seen(True) if isinstance(one, GroupSeen)}


def collectives() -> list[CollectiveSeen]:
    """Return the collectives that are found."""
    return [one for one in torch_seen(True) if isinstance(one, CollectiveSeen)]


def limitation() -> str:
    """Return what the source lacks."""
    return next(one.limitation for one in torch_seen(True) if isinstance(one, SourceSeen))


def test_a_program_without_torch_has_no_torch_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    assert torch_seen(True) == []


def test_torch_without_groups_is_reported(approved: Approved, torch: FakeTorch) -> None:
    approved(as_text(torch_seen(True)))


def test_nccl_calls_are_reported_with_peers_as_global_ranks(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.add("default_pg", 0, 1, 2, 3, sequence=7, config="cuda:nccl")
    torch.add("pp", 1, 3, sequence=2, config="cuda:nccl")
    monkeypatch.setattr(time, "time_ns", lambda: 3_000_000_000)
    entries = [
        raw(6, "nccl:all_reduce", state="completed", retired=True),
        raw(7, "nccl:all_reduce", state="started", time_created_ns=1_000_000_000),
        raw(0, "nccl:recv 1<-0", group="1", is_p2p=True, p2p_seq_id=4, state="started"),
    ]
    record(monkeypatch, nccl=dump(*entries, enqueued=7, completed=6))

    completed, waits, receives = collectives()
    assert (completed.name, completed.sequence, completed.state) == ("all_reduce", 6, CollectiveState.COMPLETED)
    assert (waits.sequence, waits.state, waits.age, waits.timeout) == (7, CollectiveState.STARTED, 2.0, 600.0)
    assert (waits.shapes, waits.types, waits.size) == ("[4]", "float32", 16)
    assert (receives.name, receives.peer, receives.is_receive, receives.sequence) == ("recv", 1, True, 4)
    world = groups()["default"]
    assert (world.name, world.members, world.enqueued, world.started, world.completed) == ("0:nccl", "0-3", 7, 7, 6)
    assert (groups()["pp"].enqueued, groups()["pp"].completed) == (2, None)
    assert limitation() == ""


def test_each_backend_of_a_group_counts_separately(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.add("default_pg", 0, 1, sequence=9, config="cpu:gloo,cuda:nccl")
    record(
        monkeypatch,
        gloo=dump(raw(2, "gloo:barrier", retired=True), enqueued=2, completed=2),
        nccl=dump(raw(9, "nccl:all_reduce"), enqueued=9, completed=8),
    )
    found = [one for one in torch_seen(True) if isinstance(one, GroupSeen)]
    assert [(one.name, one.enqueued, one.completed) for one in found] == [("0:gloo", 2, 2), ("0:nccl", 9, 8)]


def test_a_receive_that_gloo_does_not_record_is_found_on_the_stack(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = torch.add("pair", 4, 6, sequence=3)
    record(monkeypatch, gloo=dump(raw(2, "gloo:barrier", retired=True), enqueued=2, completed=2))
    found: list[CollectiveSeen] = []
    vars(torch.module)["look"] = lambda: found.extend(collectives())

    torch.module.recv(None, group=pair, group_src=1)

    receives = found[-1]
    assert (receives.name, receives.peer, receives.group, receives.is_receive) == ("recv", 6, "0:gloo", True)
    assert receives.sequence is None


@pytest.mark.parametrize("is_recorded", [True, False])
def test_the_root_of_a_call_is_read_from_the_stack_as_a_global_rank(
    is_recorded: bool, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = torch.add("pair", 4, 6, sequence=3)
    entries = [
        *(raw(number, "gloo:broadcast") for number in (3, 2)),
        raw(1, "gloo:broadcast", retired=True),
        raw(4, "gloo:all_reduce"),
    ]
    if is_recorded:
        record(monkeypatch, gloo=dump(*entries, enqueued=4, completed=1))
    found: list[CollectiveSeen] = []
    vars(torch.module)["look"] = lambda: found.extend(collectives())

    torch.module.broadcast(None, group=pair, group_src=1)
    torch.module.broadcast(None, group=pair, src=4)

    assert [(one.sequence, one.root) for one in found if one.root is not None] == [(3, 6), (3, 4)]


@pytest.mark.parametrize(
    ("function", "recorded", "count"),
    [
        ("reduce_scatter_single", "gloo:all_reduce", 1),
        ("reduce_scatter_tensor", "gloo:all_reduce", 1),
        ("reduce_scatter", "gloo:all_reduce", 2),
        ("reduce_scatter_single", "nccl:_reduce_scatter_base", 1),
        ("reduce_scatter_single", "nccl:all_reduce", 0),
    ],
)
def test_the_function_on_the_stack_names_a_call_that_is_recorded_under_another_name(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, function: str, recorded: str, count: int
) -> None:
    torch.add("default_pg", 0, 1, sequence=5, config="cpu:gloo,cuda:nccl")
    entries = [raw(number, recorded) for number in (5, 4, 3)]
    record(monkeypatch, gloo=dump(raw(2, recorded, retired=True), *entries, enqueued=5, completed=2))
    seen: list[CollectiveSeen] = []
    vars(torch.module)["look"] = lambda: seen.extend(collectives())

    getattr(torch.module, function)(None, None)

    known = "reduce_scatter" if function == "reduce_scatter" else "reduce_scatter_single"
    assert (
        sorted(one.sequence or 0 for one in seen if one.name == known and one.place is not None) == [5, 4][:count][::-1]
    )


def test_a_group_method_that_a_thread_waits_for_is_a_call(torch: FakeTorch) -> None:
    group = torch.add("default_pg", 0, 1)
    found: list[Call] = []
    frame = sys._getframe()
    Work.look = lambda: found.append(torch_calls._innermost(frame, vars(torch.module)))  # type: ignore[arg-type]
    group.broadcast(None, 0).wait()
    assert found == [Call(group=group, name="broadcast")]


def test_the_place_of_a_call_is_read_from_its_thread_or_the_recorder(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.add("default_pg", 0, 1, sequence=2)
    frames = [
        {"name": "all_reduce", "filename": "/venv/site-packages/torch/distributed/distributed_c10d.py", "line": 3245},
        {"name": "start_sum", "filename": "/home/me/train.py", "line": 12},
        {"name": "main", "filename": "/home/me/train.py", "line": 30},
    ]
    one = raw(2, "gloo:all_reduce")
    content = dump(one, enqueued=2, completed=1)
    recorder = Recorder("gloo", lambda: content, lambda: content, lambda: pickled(one | {"frames": frames}))
    monkeypatch.setattr(torch_collectives, "recorders_of", lambda native: [recorder])
    monkeypatch.setattr(torch_collectives, "_call_places", CallPlaces())
    monkeypatch.setattr(flight_recorder, "PLACES_SECONDS", seconds(60))
    on_stack: list[CollectiveSeen] = []
    vars(torch.module)["look"] = lambda: on_stack.extend(collectives())

    assert [call.place for call in collectives()] == [Place(file="/home/me/train.py", line=12, function="start_sum")]
    torch.module.all_reduce(None)

    (call,) = on_stack
    assert call.place is not None
    assert (call.place.file, call.place.function) == (__file__, sys._getframe().f_code.co_name)


def test_the_stack_and_the_groups_number_are_used_without_a_recorder(approved: Approved, torch: FakeTorch) -> None:
    torch.add("default_pg", 0, 1, sequence=12)
    found: list[object] = []
    vars(torch.module)["look"] = lambda: found.extend(torch_seen(True))

    torch.module.all_reduce(None)
    source, group, call = found
    assert isinstance(source, SourceSeen)
    assert isinstance(group, GroupSeen)
    assert isinstance(call, CollectiveSeen)
    approved(source.limitation)
    assert (group.enqueued, group.completed) == (12, None)
    assert (call.name, call.sequence, call.state) == ("all_reduce", 12, CollectiveState.ENQUEUED)

    found.clear()
    torch.module.recv(None, 1)
    # gloo counts the receive that goes on.
    assert found[1].enqueued == 11  # type: ignore[attr-defined]


def test_the_way_to_enable_the_recorder_is_shown(
    approved: Approved, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.add("default_pg", 0, 1, sequence=12)
    record(monkeypatch, gloo=dump())
    approved(limitation())
    monkeypatch.setenv("TORCH_NCCL_TRACE_BUFFER_SIZE", "0")
    approved(limitation(), "2")
    record(monkeypatch, gloo=b"{")
    approved(limitation(), "3")


def test_entries_without_a_group_name_are_left_out(
    approved: Approved, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.add("default_pg", 0, 1, sequence=3)
    record(monkeypatch, gloo=dump(raw(3, "gloo:all_gather", group=""), enqueued=3, completed=2))
    assert collectives() == []
    approved(limitation())


def test_the_only_group_has_its_numbers_even_if_its_entries_are_not_read(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.add("default_pg", 0, 1, sequence=5000)
    record(monkeypatch, gloo=dump(raw(5000, "gloo:all_reduce"), enqueued=5000, completed=4999))
    (group,) = [one for one in torch_seen(False) if isinstance(one, GroupSeen)]
    assert (group.enqueued, group.completed) == (5000, 4999)


ON_AND_EMPTY = b'{"pg_config":{"":{"ranks":"[0, 1]"}},"pg_status":{},"version":"2.10"}'


@pytest.mark.parametrize(("sequence", "content"), [(0, dump()), (5, ON_AND_EMPTY)], ids=["no call", "recorder on"])
def test_a_group_with_nothing_to_record_has_no_limitation(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, sequence: int, content: bytes
) -> None:
    torch.add("default_pg", 0, 1, sequence=sequence)
    record(monkeypatch, gloo=content)
    assert limitation() == ""
    assert collectives() == []
    # The group's own count is that of sends and receives.
    assert groups()["default"].enqueued == 0


# ---------------------------------------------------------------------------------------------- flight recorders


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b'{"entries":[{"collective_seq_id":1',
        b'{"entries":[{"collective_seq_id":1}]}',
        b'{"entries":5}',
        pickle.dumps(ValueError),
        (DUMPS / "gloo_2_14.pickle").read_bytes()[:200],
    ],
)
def test_an_invalid_dump_is_reported_as_a_failure(content: bytes) -> None:
    recorded = read(Recorder("nccl", None, lambda: content), LastStatus(), is_still=True)

    assert recorded.failure
    assert recorded.entries is None


MANY = flight_recorder.FEW_ENTRIES + 1


def look(backend: str, before: LastStatus, *, enqueued: int, completed: int, is_still: bool = False) -> bool:
    """Look at a recorder with these numbers; return whether its entries were read."""
    entries = dump(raw(1, f"{backend}:all_reduce"), enqueued=enqueued, completed=completed)
    status = dump(enqueued=enqueued, completed=completed)
    recorded = read(Recorder(backend, lambda: status, lambda: entries), before, is_still=is_still)
    assert recorded.is_used is (enqueued > 0)
    assert not recorded.failure
    return recorded.entries is not None


@pytest.mark.parametrize(
    ("backend", "enqueued", "completed", "is_still", "is_read"),
    [
        ("gloo", MANY - 1, 0, False, True),
        ("gloo", MANY, 0, False, False),
        ("gloo", MANY, 0, True, True),  # a program that waits only
        ("nccl", MANY, MANY - 1, False, True),  # something is unfinished
        ("nccl", MANY, MANY, False, False),
        ("gloo", 0, 0, False, False),  # it is off
    ],
)
def test_few_entries_are_always_read_and_many_only_from_a_waiting_program(
    backend: str, enqueued: int, completed: int, is_still: bool, is_read: bool
) -> None:
    assert look(backend, LastStatus(), enqueued=enqueued, completed=completed, is_still=is_still) is is_read


def test_many_entries_are_read_if_the_status_is_unchanged_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    before = LastStatus()

    assert not look("gloo", before, enqueued=MANY, completed=MANY)
    now += 2 * flight_recorder.UNCHANGED_SECONDS
    assert look("gloo", before, enqueued=MANY, completed=MANY)
    assert not look("gloo", before, enqueued=MANY + 1, completed=MANY + 1)


def module(**functions: Any) -> ModuleType:
    """Return a module with these functions."""
    made = ModuleType("native")
    vars(made).update(functions)
    return made


def test_each_release_has_its_own_recorders() -> None:
    of_2_4 = recorders_of(module(_dump_nccl_trace=len))
    assert [(recorder.backend, recorder.status) for recorder in of_2_4] == [("nccl", None)]
    of_2_13 = recorders_of(module(_dump_nccl_trace=len, _dump_nccl_trace_json=len, _dump_fr_trace_json=len))
    assert [(recorder.backend, recorder.status is None) for recorder in of_2_13] == [("gloo", False), ("nccl", False)]
