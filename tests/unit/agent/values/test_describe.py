"""Equal values have equal digests in every rank, any difference shows, and no value takes more than its share.

Tensors and arrays are in ``tests/full/torch/test_values_torch.py``.
"""

from __future__ import annotations

import array
import threading
import time
import weakref
from collections import Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.values import record
from dbg_agent.values.describe import Described, beginning_of, describe
from dbg_agent.values.record import MAX_VALUE_TEXT
from dbg_wire.limits import MIB
from tests.conftest import Approved
from tests.unit.agent.values.inspected import ATOMS, KEYS, PLENTY, VALUES, cut

LISTED = st.recursive(ATOMS, lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=12)


def description_of(value: object, *, seconds: float = PLENTY) -> Described:
    """Describe a value."""
    return describe(value, seconds=seconds)


def compared(value: object) -> Described:
    """Describe a value that can be looked at whole."""
    described = description_of(value)
    assert described.digest
    return described


def digest(value: object) -> str:
    return compared(value).digest


class Shown:
    """An object whose repr shows what it holds."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __repr__(self) -> str:
        return f"Shown({self.held!r})"

    def method(self) -> object:
        return self.held


class Shows:
    """An object whose repr returns this, a string or not, or raises it."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        if isinstance(self.shown, BaseException):
            raise self.shown
        return self.shown  # type: ignore[no-any-return]


class Node:
    """An object with the default repr."""

    def __init__(self, *_: object, **attributes: object) -> None:
        self.__dict__.update(attributes)


# ------------------------------------------------------------------------------------------------------ equal or not


def reordered(value: Any) -> Any:
    """Return an equal value whose dicts and sets were filled the other way round."""
    if isinstance(value, dict):
        return {key: reordered(inner) for key, inner in reversed(value.items())}
    if isinstance(value, (set, frozenset)):
        return type(value)(reversed(list(value)))
    if isinstance(value, (list, tuple)):
        return type(value)(map(reordered, value))
    return value


def leaves(value: Any) -> int:
    """Count what isn't a list."""
    return sum(map(leaves, value)) if isinstance(value, list) else 1


def with_leaf(value: Any, number: int, leaf: object) -> Any:
    """Return nested lists with one leaf replaced."""
    if not isinstance(value, list):
        return leaf if number == 0 else value
    parts = []
    for inner in value:
        parts.append(with_leaf(inner, number, leaf) if number >= 0 else inner)
        number -= leaves(inner)
    return parts


@given(VALUES)
def test_equal_values_have_equal_digests_in_whatever_order_they_were_filled(value: object) -> None:
    assert compared(value) == compared(value)
    assert digest(reordered(value)) == digest(value)


@given(LISTED, st.data())
def test_a_changed_leaf_changes_the_digest(value: object, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, leaves(value) - 1))
    changed = with_leaf(value, number, ("a tuple is no leaf of the other",))
    assert digest(changed) != digest(value)


@given(st.dictionaries(KEYS, ATOMS, min_size=1), st.data())
def test_a_changed_value_or_key_of_a_dict_changes_the_digest(value: dict[object, object], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(list(value)))
    without = {name: inner for name, inner in value.items() if name != key}
    new = ("a new key", "or value")
    assert len(set(map(digest, (value, without, {**value, key: new}, {**without, new: value[key]})))) == 4


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


def without(batch: Batch, name: str) -> Batch:
    delattr(batch, name)
    return batch


def loop(end: object) -> list[Any]:
    """Return a list that holds itself."""
    inner: dict[str, Any] = {"end": end}
    outer = [inner]
    inner["outer"] = outer
    return outer


def itself_in(depth: int) -> list[Any]:
    """Return a list that is its own innermost part."""
    outer = inner = list[Any]()
    for _ in range(depth):
        inner.append([])
        inner = inner[0]
    inner.append(outer)
    return outer


def tree(leaf: object) -> Node:
    root = Node(items=[Node(leaf=leaf), Node(leaf={1: Node(leaf=leaf)})])
    vars(root)["itself"] = root
    return root


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (b"a", bytearray(b"a")),
        ({1}, frozenset({1})),
        ({1: 2}, {2: 1}),
        (["a", "bstr:c"], ["astr:b", "c"]),
        (memoryview(b"abcd"), memoryview(b"abcd").cast("B", (2, 2))),
        (array.array("i", [1]), array.array("I", [1])),
        (OrderedDict(a=1), {"a": 1}),
        (OrderedDict({"a": 1, "b": 2}), OrderedDict({"b": 2, "a": 1})),
        (defaultdict(int, a=1), defaultdict(int, a=2)),
        (Batch(0.5, {"a"}), Batch(0.5, {"a"}, hidden=1)),
        (Batch(0.5, {"a"}), Batch(0.5, {"b"})),
        (Batch(without(Batch(0.5, set()), "names"), set()), without(Batch(Batch(0.5, set()), set()), "names")),
        (Point(1, "a"), Point(1, "b")),
        (loop(1), loop(2)),
        ([itself_in(0)], itself_in(1)),
        (tree(1), tree(2)),
        (lambda x: x + 1, lambda x: x + 2),
        ("<Worker a at 0x7f0000000010>", "<Worker b at 0x7f0000000010>"),
        (Shows(ValueError("no\nway")), Shows(ValueError("no\nwhy"))),
        (Shows("\ud800!"), Shows("\ud801!")),
    ],
)
def test_different_values_differ(one: object, other: object) -> None:
    first, second = compared(one), compared(other)
    assert first.digest != second.digest


def recursive() -> object:
    def calls_itself() -> object:
        return calls_itself, closed(None)

    return calls_itself


SHARED = [1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([float("nan")], [float("nan")]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1, "b": 2}.keys(), {"b": 2, "a": 1}.keys()),
        (Batch(0.5, {"a", "b"}), Batch(0.5, {"b", "a"}, cached=1)),
        (loop(1), loop(1)),
        ([SHARED, SHARED], [[1], [1]]),
        (tree(1), tree(1)),
        (lambda x: x + 1, lambda x: x + 1),
        (recursive(), recursive()),
        (threading.Event(), threading.Event()),
        ([1, Shows(ValueError("no"))], [1, Shows(ValueError("no"))]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_equal_values_of_any_type_are_equal(one: object, other: object) -> None:
    assert digest(one) == digest(other)


def test_large_values_differ_where_their_abbreviated_texts_do_not() -> None:
    def around(middle: str) -> str:
        return "x" * 100_000 + middle + "x" * 100_000

    pairs: list[tuple[object, object]] = [
        (10**5000, 10**5000 + 2**5000),
        ([10**5000], [10**5000 + 2**5000]),
        (list(range(9000)), [*range(4500), 4501, 4500, *range(4502, 9000)]),
        (around("a"), around("b")),
        (around("a").encode(), around("b").encode()),
        (Shows(around("a")), Shows(around("b"))),
    ]
    for one, other in pairs:
        assert compared(one).text == compared(other).text
        assert digest(one) != digest(other)


# ---------------------------------------------------------------------------------- addresses, and what is behind them


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {value: {value}}])
def test_digests_are_independent_of_addresses(wrap: Any) -> None:
    first, second = Node(), Node()
    assert digest(wrap(first)) == digest(wrap(second))


@pytest.mark.parametrize("text", ["0x{}", "CRC error at 0x{}", "<Sensor at 0x{:.4}>", "crc at 0x{}>"])
def test_a_hexadecimal_number_is_no_address(text: str) -> None:
    assert digest(text.format("1a2b3c4d")) != digest(text.format("99887766"))


@pytest.mark.parametrize(
    "text",
    ["<weakref at 0x{0}; to 'A' at 0x{0}>", "<Future at 0x{} state=pending>", "<code object f at 0x{}, line 3>"],
)
def test_addresses_within_a_repr_do_not_count(text: str) -> None:
    class Own:
        def __repr__(self) -> str:
            return text.format(f"{id(self):x}")

    one, other = Own(), Own()
    assert digest(one) == digest(other)


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

    assert digest(with_best(1)) == digest(with_best(1))
    assert len(set(map(digest, (with_best(1), with_best(2), kind())))) == 3


def named(value: Any, name: object) -> Any:
    """Return a value with an attribute."""
    value.name = name
    return value


def closed(held: object) -> Callable[[], object]:
    """Return a function with this in its closure."""
    return lambda: held


KEPT: list[Shown] = []
"""What weak references in tests refer to."""


def referring(held: object) -> weakref.ref[Shown]:
    """Return a weak reference to an object that holds this."""
    KEPT.append(Shown(held))
    return weakref.ref(KEPT[-1])


HOLDERS: dict[str, Callable[[Any], object]] = {
    "namespace": lambda held: SimpleNamespace(held=held),
    "partial": lambda held: partial(print, held),
    "slice": slice,
    "method": lambda held: Shown(held).method,
    "builtin method": lambda held: [held].append,
    "own repr": Shown,
    "deep": lambda held: Shown([Shown({1: held})]),
    "attribute of a function": lambda held: named(closed(1), held),
    "closure": closed,
    "default": lambda held: lambda inner=held: inner,
    "error": lambda held: ValueError(Shown(held)),
    "weak reference": referring,
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS.keys())
def test_the_object_behind_an_address_counts(holder: Callable[[object], object]) -> None:
    assert digest(holder(Node(best=1))) == digest(holder(Node(best=1)))
    assert digest(holder(Node(best=1))) != digest(holder(Node(best=2)))
    # An address that a text only looks like is no address.
    assert digest(holder("crc at 0x1a2b3c01>")) != digest(holder("crc at 0x1a2b3c02>"))


# -------------------------------------------------------------------------------------------------------------- text


def test_small_values_are_shown_as_in_python() -> None:
    values = [0.25, "a\x1b[2J\n", b"\x00", [1, [2.5, None], (1,), ()], {"a": {1}, 2: frozenset({3})}, set(), range(3)]
    others = [deque([1, "a"]), Counter("aab"), {1: 2}.keys(), KeyError("x"), Point(1, "a")]
    for value in [*values, *others]:
        assert compared(value).text == repr(value)


class Mute(Exception):
    """An exception whose message raises."""

    def __str__(self) -> str:
        raise ValueError


class Proxy:
    """An object that says that it is a dict."""

    __class__ = dict  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "start", "end"),
    [
        (OrderedDict(a=1), "OrderedDict({'a': 1})", ""),
        (defaultdict(int, a=1), "defaultdict({'a': 1})", ""),
        (without(Batch(0.5, set()), "loss"), "Batch(names=set())", ""),
        (loop(1), "[{'end': 1, 'outer': ...}]", ""),
        (tree(1), "<tests.unit.agent.values.test_describe.Node object at 0x", ">"),
        (Proxy(), "<", ">"),
        ([1, Shows(ValueError("no\nway"))], "[1, <Shows: repr raised ValueError: no\nway>]", ""),
        (Shows(Mute()), "<Shows: repr raised Mute: >", ""),
        (Shows("\ud800!"), "?!", ""),
        (list(range(100_000)), "[0, 1, 2, ", ", 99998, 99999]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_shown_in_their_own_form(value: object, start: str, end: str) -> None:
    text = compared(value).text
    assert text.startswith(start)
    assert text.endswith(end)
    assert end or text == start


@given(st.text(), st.integers(0, 40_000))
def test_text_is_bounded_and_can_be_sent(piece: str, times: int) -> None:
    for value in (piece * times, [piece] * (times // 100), (piece * times).encode("utf-8", "surrogatepass")):
        text = description_of(value).text
        assert len(text) <= MAX_VALUE_TEXT
        text.encode()


@pytest.mark.parametrize("value", [list(range(100_000)), "x" * 100_000, b"x" * 100_000])
def test_long_text_is_abbreviated_in_its_middle_and_shows_its_length(value: object) -> None:
    assert compared(value).text.count(f" … {len(repr(value)):,} ") == 1
    assert len(compared(Shows(ValueError("x" * 10_000))).text) < 1000


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_an_interrupt_is_not_suppressed(error: BaseException) -> None:
    with pytest.raises(type(error)):
        description_of([Shows(error)])


# ------------------------------------------------------------------------------------------------------ not compared


def not_compared(described: Described) -> str:
    """Check that a value was given up; return its text."""
    assert described.digest == ""
    return described.text


def graph() -> Node:
    """Return one of some objects each of which holds all others."""
    nodes = [Node(name=name) for name in range(12)]
    for node in nodes:
        vars(node)["others"] = list(nodes)
    return nodes[0]


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def grows() -> object:
    """Return a dict that grows while it is looked at."""
    value: dict[Any, Any] = {}

    class Grows:
        def __repr__(self) -> str:
            value[len(value)] = 0
            return "grows"

    value["first"] = Grows()
    return value


class Table:
    def __array__(self) -> None:
        """Stand for a table of another library."""


NOT_COMPARED: dict[str, Callable[[], object]] = {
    "graph": graph,
    "grows": grows,
    "iterator": lambda: iter([1]),
    "enumerate": lambda: Node(source=enumerate([1])),
    "generator": lambda: (one for one in "a"),
    "inside": lambda: Shown(iter([1])),
    "deep": lambda: deep(150),
    "dots": lambda: Shows("Table(1, 2, ..., 9)"),
    "tensor": lambda: Shows("Loss(tensor(0.1235))"),
    "array": lambda: Shows("Table(array([1.]))"),
    "dot": lambda: Shows("[0 … 9]"),
    "turns_into_array": Table,
}


@pytest.mark.parametrize("make", NOT_COMPARED.values(), ids=NOT_COMPARED)
def test_a_value_that_cannot_be_read_completely_is_not_compared(approved: Approved, make: Callable[[], object]) -> None:
    approved(not_compared(description_of(make())))


def test_a_nesting_of_any_depth_is_not_compared() -> None:
    value = deep(100_000)
    not_compared(description_of(value))
    while value:
        value = value.pop()


def test_a_value_that_takes_too_long_is_not_compared(approved: Approved) -> None:
    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]
    text = not_compared(description_of([object(), shared], seconds=0.05))
    assert text.startswith("[<object object")
    assert " … [" in text
    approved(not_compared(description_of([1] * 1_000_000, seconds=0.0)))


@pytest.mark.parametrize("large", ["x" * (MIB + 1), b"x" * (MIB + 1)], ids=["str", "bytes"])
def test_a_value_that_is_too_large_is_not_compared_but_the_rest_is_shown(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, large: object
) -> None:
    monkeypatch.setattr(record, "MAX_BYTES", MIB)
    text = not_compared(description_of({"first": large, "second": 7}))
    approved(text[text.index("'second'") :])


# ---------------------------------------------------------------------------------------------- the beginning of a text


@given(VALUES, st.integers(1, 100))
def test_a_beginning_is_that_of_the_described_text(value: object, most: int) -> None:
    assert beginning_of(value, most=most, seconds=PLENTY) == cut(description_of(value).text, most)


def test_a_beginning_ends_when_the_time_is_over(approved: Approved) -> None:
    class Sleepy:
        def __repr__(self) -> str:
            time.sleep(0.01)
            return "z"

    start, _, end = beginning_of([Sleepy() for _ in range(1000)], most=2000, seconds=0.05).partition("… ")
    assert start.startswith("[z, z")
    approved(end)
