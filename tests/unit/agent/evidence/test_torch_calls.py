"""The collectives of torch that threads are in, by their stacks, and the process groups that torch keeps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from dbg_agent.evidence.torch_calls import (
    Call,
    calls_on_stacks,
    group_of,
    groups_in_making,
    process_groups,
)
from tests.unit.agent.evidence.fake_torch import FakeTorch, ProcessGroup


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
def test_roots_and_partners_are_told_as_the_caller_gave_them(
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
def test_the_group_that_a_thread_makes_is_told_by_whom_it_waits_for(
    torch: FakeTorch, arguments: tuple[object, ...], expected: list[tuple[int, ...]]
) -> None:
    seen: list[list[tuple[int, ...]]] = []
    vars(torch.module)["look"] = lambda: seen.append(groups_in_making(torch.module, (0, 1, 2, 3)))
    torch.module._new_group_with_tag(*arguments)
    assert seen == [expected]
    assert groups_in_making(torch.module, ()) == []


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


# -------------------------------------------------------------------------------------------------------------- groups


def test_groups_have_the_names_of_people_and_global_ranks(torch: FakeTorch) -> None:
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


def test_what_the_program_has_put_there_is_left_out_and_not_called(torch: FakeTorch) -> None:
    ours = type("Ours", (ProcessGroup,), {"group_desc": property(fails, lambda self, value: None)})("", 0)
    torch.names[ours], torch.ranks[ours] = "5", {0: 0}
    torch.names[torch.add("broken", 0)] = object()
    torch.ranks[torch.add("members", 0)] = [0]
    torch.config[torch.add("kept", 0)] = object()
    assert [group.title for group in process_groups(torch.module)] == ["kept"]
