"""The collectives of torch that threads are in, by their stacks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from dbg_agent.evidence.torch_calls import Call, calls_on_stacks, group_of, groups_in_making, process_groups, shape_of
from tests.unit.agent.evidence.fake_torch import FakeTorch


def during(torch: FakeTorch, call: Callable[[], None]) -> list[Call]:
    """Return the calls that are seen while this one goes on."""
    found: list[Call] = []
    vars(torch.module)["look"] = lambda: found.extend(calls_on_stacks(torch.module))
    call()
    return found


def test_a_collective_has_its_group(torch: FakeTorch) -> None:
    default, pair = torch.add("default_pg", 0, 1, 2), torch.add("pair", 0, 2)
    groups = process_groups(torch.module)

    (call,) = during(torch, lambda: torch.module.all_reduce("tensor", group=pair))
    assert (call.name, call.tensor, call.is_p2p) == ("all_reduce", "tensor", False)
    assert group_of(call, groups) == groups[1]
    (call,) = during(torch, lambda: torch.module.all_reduce("tensor"))
    assert group_of(call, groups) == groups[0]
    assert group_of(Call(group=object(), name="all_reduce"), groups) is None
    assert group_of(call, []) is None
    assert default is not pair


def test_partners_are_told_as_the_caller_gave_them(torch: FakeTorch) -> None:
    assert during(torch, lambda: torch.module.recv("t", 2)) == [
        Call(group=None, name="recv", peer=2, tensor="t", tag=0)
    ]
    assert during(torch, lambda: torch.module.recv("t")) == [Call(group=None, name="recv", tensor="t", tag=0)]
    expected = [Call(group=None, name="recv", peer=1, is_local=True, tensor="t", tag=0)]
    assert during(torch, lambda: torch.module.recv("t", group_src=1)) == expected
    (call,) = during(torch, lambda: torch.module.recv("t", 2, tag=12))
    assert call.tag == 12


def test_roots_are_told_as_the_caller_gave_them(torch: FakeTorch) -> None:
    given = [
        *during(torch, lambda: torch.module.broadcast("t", 3)),
        *during(torch, lambda: torch.module.broadcast("t", group_src=1)),
        *during(torch, lambda: torch.module.reduce("t", dst=2)),
        *during(torch, lambda: torch.module.broadcast("t")),
        *during(torch, lambda: torch.module.all_reduce("t")),
    ]

    assert [(call.root, call.is_local) for call in given] == [
        (3, False),
        (1, True),
        (2, False),
        (None, False),
        (None, False),
    ]


def test_a_send_is_one_call_though_it_calls_isend(torch: FakeTorch) -> None:
    assert during(torch, lambda: torch.module.send("t", 5)) == [
        Call(group=None, name="send", peer=5, tensor="t", tag=0)
    ]
    assert during(torch, lambda: torch.module.isend("t", 5)) == [
        Call(group=None, name="send", peer=5, tensor="t", tag=0)
    ]


def test_a_thread_that_is_elsewhere_is_in_no_call(torch: FakeTorch) -> None:
    assert calls_on_stacks(torch.module) == []
    assert during(torch, torch.module.new_group) == []


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


def test_an_object_that_is_no_tensor_has_no_shape(torch: FakeTorch) -> None:
    class Tensor:
        shape = (2, 3)
        dtype = "torch.float32"

    class Ours(Tensor):
        @property
        def shape(self) -> None:  # type: ignore[override]
            raise SystemExit

    vars(torch.torch)["Tensor"] = Tensor
    assert shape_of(Tensor()) == (((2, 3),), ("float32",))
    assert shape_of(Ours()) == shape_of(None) == ((), ())
