"""Reading the program's variables runs none of its code, and changes none of them."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import pytest

from dbg_agent.evidence.expressions import call_site
from dbg_agent.evidence.locks import LOCK
from dbg_agent.evidence.variables import (
    UNKNOWN,
    attribute,
    attributes,
    has_method,
    is_a,
    is_traced,
    item,
    local,
    variable,
)
from dbg_agent.stop.frame_locals import WRITES_THROUGH


class Hostile:
    """An object each of whose special methods fails the test."""

    def __init__(self) -> None:
        object.__setattr__(self, "lock", threading.Lock())

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    @property
    def computed(self) -> object:
        raise AssertionError

    def __eq__(self, _other: object) -> bool:
        raise AssertionError

    def __hash__(self) -> int:
        raise AssertionError

    def __repr__(self) -> str:
        raise AssertionError

    def __bool__(self) -> bool:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError

    def __getitem__(self, _key: object) -> object:
        raise AssertionError


class HostileDict(dict[Any, Any]):
    def __getitem__(self, _key: object) -> object:
        raise AssertionError

    def get(self, *_args: object) -> object:
        raise AssertionError

    def __contains__(self, _key: object) -> bool:
        raise AssertionError


class OwnDict:
    """A class whose instances pretend to have a dictionary."""

    __slots__ = ()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        raise AssertionError


class HostileMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(name)

    def __instancecheck__(cls, _instance: object) -> bool:
        raise AssertionError


class OfMeta(metaclass=HostileMeta):
    shared = threading.Lock()


class Lazy(ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def test_an_attribute_is_read_past_all_code_of_its_object() -> None:
    hostile = Hostile()
    assert type(attribute(hostile, "lock")) is LOCK
    for name in ("computed", "missing", "__class__", "__dict__"):
        assert attribute(hostile, name) is UNKNOWN
    assert list(attributes(hostile)) == ["lock"]


MAKERS: dict[str, Callable[[], object]] = {
    "hostile": Hostile,
    "dictionary": HostileDict,
    "own dictionary": OwnDict,
    "class": lambda: OfMeta,
    "lazy module": lambda: Lazy("lazy"),
    "number": lambda: 5,
    "None": lambda: None,
    "unknown": lambda: UNKNOWN,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_nothing_that_is_asked_about_any_object_runs_its_code(kind: str) -> None:
    value = MAKERS[kind]()
    for name in ("acquire", "lock", "__dict__", "missing"):
        attribute(value, name)
    attributes(value)
    assert not is_a(value, threading.Thread)
    assert not has_method(value, "no_such_method")
    for key in (0, "a", value):
        assert item(value, key) is UNKNOWN


def test_slots_class_attributes_and_modules_are_read() -> None:
    class Slotted:
        __slots__ = ("empty", "full")

    slotted = Slotted()
    slotted.full = 5  # type: ignore[attr-defined]
    assert attribute(slotted, "full") == 5
    assert attribute(slotted, "empty") is UNKNOWN
    assert type(attribute(OfMeta, "shared")) is LOCK
    assert type(attribute(object.__new__(OfMeta), "shared")) is LOCK
    assert attribute(sys, "path") is sys.path
    assert attribute(Hostile, "computed") is UNKNOWN


def test_items_of_plain_collections_are_read() -> None:
    assert item([1, 2], 1) == 2
    assert item((1, 2), -2) == 1
    assert item({"a": 3}, "a") == 3
    assert item([1], 1) is item({}, "a") is item([1], 0.0) is UNKNOWN


def _frame() -> FrameType:
    return sys._getframe(1)


class Tensor:
    pass


def test_a_variable_that_was_read_lives_no_longer_than_it_would() -> None:
    tensor = Tensor()
    gone = weakref.ref(tensor)
    frame = _frame()
    read: Callable[[], bool] = lambda: local(frame, "gone") is gone  # noqa: E731
    assert read()
    del tensor
    assert gone() is None


def test_names_that_exec_has_made_are_left_alone() -> None:
    exec("made = 5")  # noqa: S102 - as programs do
    local(_frame(), "missing")
    if not WRITES_THROUGH:
        assert locals()["made"] == 5


def test_a_snapshot_of_the_program_is_left_alone() -> None:
    number = 5
    mine = locals()
    assert local(_frame(), "number") == number
    assert mine["number"] == 5


def test_closed_over_and_global_variables_are_read() -> None:
    outer = object()

    def inner() -> tuple[Any, Any]:
        assert outer is not None
        return local(_frame(), "outer"), local(_frame(), "later")

    assert inner() == (outer, UNKNOWN)
    assert variable(_frame(), "Tensor") is Tensor
    assert variable(_frame(), "len") is len
    assert variable(_frame(), "nothing") is UNKNOWN


def test_the_body_of_a_class_with_a_mapping_of_its_own_is_not_read() -> None:
    class Meta(type):
        @classmethod
        def __prepare__(cls, *_args: Any, **_more: Any) -> Any:
            return Mapping()

        def __new__(cls, name: str, bases: Any, space: Any) -> Any:
            return type.__new__(cls, name, bases, dict(space))

    class Mapping(dict[str, Any]):
        def get(self, *_args: Any) -> Any:
            raise AssertionError

    class Body(metaclass=Meta):
        found = local(_frame(), "__module__")

    assert Body.found is UNKNOWN


if not WRITES_THROUGH:

    def test_a_thread_that_is_traced_is_not_read() -> None:
        frame = _frame()
        assert not is_traced([frame])

        def trace(_frame: FrameType, event: str, _argument: object) -> None:
            seen.append(is_traced([sys._getframe()]) and event == "call")

        seen: list[bool] = []
        former = sys.gettrace()
        sys.settrace(trace)
        Tensor.__name__.upper()
        _frame()
        sys.settrace(former)
        assert seen == [True]


def test_no_instruction_of_the_library_fails_to_be_read() -> None:
    """Every function of some modules is looked at as if it stood at each of its instructions."""
    import dataclasses
    import subprocess
    import tarfile

    from dbg_agent.evidence.instructions import entered, has_with, index_of, instructions_of, operands_start

    blocks = 0
    for module in (dataclasses, subprocess, tarfile, threading):
        for value in vars(module).values():
            members = vars(value).values() if isinstance(value, type) else [value]
            for code in [member.__code__ for member in members if hasattr(member, "__code__")]:
                instructions = instructions_of(code)
                for index, one in enumerate(instructions):
                    assert instructions[index_of(instructions, one.at) or 0].at == one.at
                    operands_start(instructions, index, 1)
                    found = entered(code, instructions, one.at)
                    blocks += len(found)
                    assert not found or has_with(code)
    assert blocks > 100


def test_a_frame_at_no_call_is_in_none() -> None:
    assert call_site(_frame()) is not None
    generator = (number for number in range(2))
    assert call_site(generator.gi_frame) is None  # type: ignore[attr-defined] # every generator has one
