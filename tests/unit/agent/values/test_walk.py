"""Containers are looked at part by part, and what can't be looked at whole is never compared."""

from __future__ import annotations

import queue
import threading
import weakref
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from dbg_agent.values import record
from dbg_agent.values.describe import Described, describe
from dbg_wire.limits import MIB

PLENTY = 60.0
"""Seconds within which every value here is described."""


def told(value: object, *, seconds: float = PLENTY) -> Described:
    """Describe a value without figures."""
    return describe(value, stats=False, seconds=seconds)


def compared(value: object) -> Described:
    """Describe a value that can be looked at whole."""
    described = told(value)
    assert described.digest
    assert described.exact
    return described


# -------------------------------------------------------------------------------------------------------- containers


@dataclass
class Batch:
    """A dataclass with a field that isn't shown and one that may be unset."""

    loss: object
    names: set[str]
    hidden: object = field(default=None, repr=False)
    cached: object = field(default=None, repr=False, compare=False)


class Point(NamedTuple):
    """A named tuple that holds more than numbers."""

    x: int
    name: str


def test_dataclasses_and_named_tuples_are_compared_by_their_fields() -> None:
    assert compared(Batch(0.5, {"a"})).text == "Batch(loss=0.5, names={'a'})"
    assert compared(Batch(0.5, {"a", "b"})).digest == compared(Batch(0.5, {"b", "a"}, cached=1)).digest
    assert compared(Batch(0.5, {"a"})).digest != compared(Batch(0.5, {"a"}, hidden=1)).digest
    assert compared(Batch(0.5, {"a"})).digest != compared(Batch(0.5, {"b"})).digest
    unset = Batch(0.5, set())
    del unset.loss
    assert compared(unset).text == "Batch(names=set())"
    inner_unset, outer_unset = Batch(0.5, set()), Batch(Batch(0.5, set()), set())
    del inner_unset.names
    del outer_unset.names
    assert compared(Batch(inner_unset, set())).digest != compared(outer_unset).digest
    assert compared(Point(1, "a")).text == "Point(x=1, name='a')"
    assert compared(Point(1, "a")).digest != compared(Point(1, "b")).digest


def test_kinds_of_dict_are_compared_by_their_items() -> None:
    kinds: dict[str, Callable[[dict[str, int]], object]] = {
        "OrderedDict": OrderedDict,
        "UserDict": UserDict,
        "defaultdict": lambda items: defaultdict(int, items),
    }
    for name, kind in kinds.items():
        assert compared(kind({"a": 1})).text == f"{name}({{'a': 1}})"
        assert compared(kind({"a": 1})).digest != compared(kind({"a": 2})).digest
        assert compared(kind({"a": 1})).digest != compared({"a": 1}).digest


class Node:
    """An object with the default repr."""

    def __init__(self, *_: object, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Slotted:
    """An object with the default repr and without a ``__dict__``."""

    __slots__ = ("best", "unset")


class Metrics(dict[str, int]):
    """A dict with attributes."""


class Rows(list[int]):
    """A list with attributes."""


@pytest.mark.parametrize("kind", [Node, Slotted, Metrics, Rows, OrderedDict, UserDict, UserList, ValueError])
def test_attributes_count(kind: Callable[[], Any]) -> None:
    def with_best(best: int) -> object:
        made = kind()
        made.best = best
        return made

    assert compared(with_best(1)).digest == compared(with_best(1)).digest
    assert compared(with_best(1)).digest != compared(with_best(2)).digest
    assert compared(with_best(1)).digest != compared(kind()).digest


class Text(str):
    """A string with attributes."""

    name: object = None


class Size(int):
    """A number with attributes and with a repr that shows neither."""

    name: object = None

    def __repr__(self) -> str:
        return "a size"


class Shown:
    """An object whose repr shows what it holds."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __repr__(self) -> str:
        return f"Shown({self.held!r})"


class Holder:
    """An object with a method."""

    def __init__(self, held: object) -> None:
        self.held = held

    def method(self) -> object:
        """Return what it holds."""
        return self.held


def named(value: Any, name: object) -> Any:
    """Return a value with an attribute."""
    value.name = name
    return value


def closed(held: object) -> Callable[[], object]:
    """Return a function with this in its closure."""
    return lambda: held


def defaulted(held: object) -> Callable[..., object]:
    """Return a function with this as its default."""

    def function(inner: object = held) -> object:
        return inner

    return function


def named_default(held: object) -> Callable[..., object]:
    """Return a function with this as the default of a keyword."""

    def function(*, inner: object = held) -> object:
        return inner

    return function


KEPT: list[Shown] = []
"""What weak references in tests refer to."""


def referring(held: object) -> weakref.ref[Shown]:
    """Return a weak reference to an object that holds this."""
    KEPT.append(Shown(held))
    return weakref.ref(KEPT[-1])


HOLDERS: dict[str, Callable[[Any], object]] = {
    "namespace": lambda held: SimpleNamespace(held=held),
    "partial": lambda held: partial(print, held),
    "partial's keyword": lambda held: partial(print, end=held),
    "chain": lambda held: ChainMap({"a": held}),
    "proxy": lambda held: MappingProxyType({"a": held}),
    "slice": slice,
    "method": lambda held: Holder(held).method,
    "builtin method": lambda held: [held].append,
    "method wrapper": lambda held: Shown(held).__str__,
    "own repr": Shown,
    "deep": lambda held: Shown([Shown({1: held})]),
    "attribute of a str": lambda held: named(Text("a"), held),
    "attribute of an int": lambda held: named(Size(3), held),
    "attribute of a function": lambda held: named(closed(1), held),
    "closure": closed,
    "default": defaulted,
    "keyword default": named_default,
    "error": lambda held: ValueError(Shown(held)),
    "weak reference": referring,
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS.keys())
def test_what_stands_behind_an_address_counts(holder: Callable[[object], object]) -> None:
    assert compared(holder(Node(best=1))).digest == compared(holder(Node(best=1))).digest
    assert compared(holder(Node(best=1))).digest != compared(holder(Node(best=2))).digest
    # An address that a text only looks like is no address.
    assert compared(holder("crc at 0x1a2b3c01>")).digest != compared(holder("crc at 0x1a2b3c02>")).digest


def test_functions_are_compared_by_their_code() -> None:
    made: list[Callable[[int], int]] = [lambda x: x + 1, lambda x: x + 1, lambda x: x + 2]
    one, same, other = (compared(function).digest for function in made)
    assert one == same != other
    recursive = closed(None)

    def calls_itself() -> object:
        return calls_itself, recursive

    assert compared(calls_itself).digest == compared(calls_itself).digest


def test_the_value_of_a_number_or_text_with_a_repr_of_its_own_counts() -> None:
    assert compared(Size(3)).digest == compared(Size(3)).digest
    assert compared(Size(3)).digest != compared(Size(4)).digest
    assert compared([Text("...")]).digest != compared([Text("…")]).digest


def test_many_numbers_of_a_class_of_their_own_are_compared() -> None:
    numbers = [Size(number) for number in range(20_000)]
    assert compared(numbers).digest != compared([*numbers[1:], Size(0)]).digest


def test_locks_in_objects_are_told_by_what_they_are() -> None:
    assert compared(queue.Queue()).digest == compared(queue.Queue()).digest
    assert compared(threading.Event()).digest == compared(threading.Event()).digest


def test_objects_in_objects_are_compared() -> None:
    def tree(leaf: object) -> Node:
        root = Node(items=[Node(leaf=leaf), Node(leaf={1: Node(leaf=leaf)})])
        root.__dict__["itself"] = root
        return root

    assert compared(tree(1)).digest == compared(tree(1)).digest
    assert compared(tree(1)).digest != compared(tree(2)).digest
    assert compared(tree(1)).text.startswith("<tests.unit.agent.values.test_walk.Node object at 0x")


def test_a_graph_of_objects_is_given_up_before_it_takes_long() -> None:
    nodes = [Node(name=name) for name in range(12)]
    for node in nodes:
        node.__dict__["others"] = list(nodes)
    assert "Node object" in not_compared(told(nodes[0]), "more than 10,000 objects in it")


@pytest.mark.parametrize(
    "hidden", [iter([1]), map(str, [1]), Node(source=enumerate([1])), (one for one in "a"), Shown(iter([1]))]
)
def test_what_c_code_keeps_to_itself_is_not_compared(hidden: object) -> None:
    not_compared(told(hidden), "holds can't be seen")


def test_recursive_containers_end() -> None:
    def loop(end: object) -> list[Any]:
        inner: dict[str, Any] = {"end": end}
        outer = [inner]
        inner["outer"] = outer
        return outer

    assert compared(loop(1)).text == "[{'end': 1, 'outer': ...}]"
    assert compared(loop(1)).digest == compared(loop(1)).digest
    assert compared(loop(1)).digest != compared(loop(2)).digest
    inner: list[Any] = []
    inner.append(inner)
    outer: list[Any] = [[]]
    outer[0].append(outer)
    assert compared([inner]).digest != compared(outer).digest
    shared = [1]
    assert compared([shared, shared]).digest == compared([[1], [1]]).digest


def test_a_proxy_is_not_taken_for_what_it_says_it_is() -> None:
    class Proxy:
        __class__ = dict  # type: ignore[assignment]

    assert compared(Proxy()).text.startswith("<")


# ------------------------------------------------------------------------------------------------------ not compared


class Shows:
    """An object whose repr returns this text."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        return self.shown


def not_compared(described: Described, reason: str) -> str:
    """Check that a value was given up for this reason; return its text without the reason."""
    assert described.digest == ""
    assert described.exact == ""
    text, _, said = described.text.rpartition("[values not compared: ")
    assert reason in said
    return text.strip()


def test_what_takes_too_long_is_not_compared() -> None:
    numbers = list(range(1_000_000))
    assert not_compared(told(numbers, seconds=0.0), "not done within 0 s") == ""
    text = not_compared(told([object(), *([[]] * 3_000_000)], seconds=0.3), "not done within 0.3 s")
    assert text.startswith("[<object object")
    assert text.endswith(" …")


def test_exponentially_shared_containers_end_in_time() -> None:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    not_compared(told(value, seconds=0.05), "not done within")


def test_what_is_too_large_is_not_compared_and_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MAX_BYTES", MIB)
    for large in ("x" * (MIB + 1), b"x" * (MIB + 1)):
        text = not_compared(told({"first": large, "second": 7}), "larger than 1 MiB")
        assert text.endswith("'second': 7}")


def test_deep_nesting_is_not_compared() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    not_compared(told(value), "nested deeper than 100")
    while value:
        value = value.pop()


def test_a_repr_that_abbreviates_is_not_compared() -> None:
    for shown in ("Table(1, 2, ..., 9)", "Loss(tensor(0.1235))", "Table(array([1.]))", "[0 … 9]"):
        assert not_compared(told(Shows(shown)), "the repr of Shows may leave out") == shown


def test_what_turns_into_an_array_is_not_compared_by_its_repr() -> None:
    class Table:
        def __array__(self) -> None:
            """Stand for a table of another library."""

    not_compared(told(Table()), "the repr of Table may leave out")


def test_a_container_that_changes_meanwhile_is_not_compared() -> None:
    value: dict[Any, Any] = {}

    class Grows:
        def __repr__(self) -> str:
            value[len(value)] = 0
            return "grows"

    value["first"] = Grows()
    text = not_compared(told(value), "RuntimeError: dictionary changed size during iteration")
    assert text.startswith("{'first': grows")
