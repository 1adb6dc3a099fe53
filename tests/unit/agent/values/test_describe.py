"""Equal values have equal digests in every rank, any difference shows, and no value takes more than its share.

Tensors and arrays are in ``tests/full/torch/test_values_torch.py``.
"""

from __future__ import annotations

import array
import os
import sys
import threading
from collections import Counter, OrderedDict, deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.values.describe import Described, describe
from dbg_agent.values.record import MAX_VALUE_TEXT

PLENTY = 60.0
"""Seconds within which every value here is described."""

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
KEYS = st.booleans() | st.integers() | st.text(max_size=5) | st.tuples(st.integers(), st.text(max_size=3))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return containers of these values, and sets of keys."""
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.sets(KEYS, max_size=4)
        | st.frozensets(KEYS, max_size=4)
    )


VALUES = st.recursive(ATOMS, containers, max_leaves=12)
LISTED = st.recursive(ATOMS, lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=12)


def told(value: object) -> Described:
    """Describe a value without figures."""
    return describe(value, stats=False, seconds=PLENTY)


def compared(value: object) -> Described:
    """Describe a value that can be looked at whole."""
    described = told(value)
    assert described.digest
    assert described.exact
    return described


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


# ------------------------------------------------------------------------------------------------------ equal or not


@given(VALUES)
def test_equal_values_have_equal_digests_in_whatever_order_they_were_filled(value: object) -> None:
    assert compared(value) == compared(value)
    assert compared(reordered(value)).digest == compared(value).digest


@given(LISTED, st.data())
def test_one_leaf_makes_another_digest(value: object, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, leaves(value) - 1))
    changed = with_leaf(value, number, ("a tuple is no leaf of the other",))
    assert compared(changed).digest != compared(value).digest


@given(st.dictionaries(KEYS, ATOMS, min_size=1), st.data())
def test_one_value_or_key_of_a_dict_makes_another_digest(value: dict[object, object], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(list(value)))
    without = {name: inner for name, inner in value.items() if name != key}
    new = ("a new key", "or value")
    digests = {compared(other).digest for other in (value, without, {**value, key: new}, {**without, new: value[key]})}
    assert len(digests) == 4


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_strings_side_by_side_are_told_apart(first: list[str], second: list[str]) -> None:
    assert (compared(first).digest == compared(second).digest) == (first == second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], (1,)),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        ("a", b"a"),
        (b"a", bytearray(b"a")),
        ({1}, frozenset({1})),
        ({1: 2}, {2: 1}),
        ([[1], 2], [[1, 2]]),
        (["a", "bstr 1:c"], ["astr 1:b", "c"]),
        (["a", "bstr:c"], ["astr:b", "c"]),
        (None, "None"),
        (ValueError("x"), TypeError("x")),
        (memoryview(b"abcd"), memoryview(b"abcd").cast("B", (2, 2))),
        (array.array("i", [1]), array.array("I", [1])),
    ],
)
def test_different_values_differ(one: object, other: object) -> None:
    assert compared(one).digest != compared(other).digest
    assert compared(one).exact != compared(other).exact


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
        assert compared(one).digest != compared(other).digest


def test_equal_nans_are_equal() -> None:
    assert compared([float("nan")]).digest == compared([float("nan")]).digest


def test_dicts_and_their_views_are_compared_without_order() -> None:
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert compared(OrderedDict(one)).digest == compared(OrderedDict(other)).digest
    assert compared(one.keys()).digest == compared(other.keys()).digest
    assert compared(one.items()).digest != compared({"a": 1, "b": 3}.items()).digest


# --------------------------------------------------------------------------------------------------------- addresses


class Plain:
    """An object that shows itself by its address, as most do."""


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {value: {value}}])
def test_digests_are_independent_of_addresses_and_exact_ones_are_not(wrap: Any) -> None:
    first, second = Plain(), Plain()
    assert compared(wrap(first)).digest == compared(wrap(second)).digest
    assert compared(wrap(first)).exact != compared(wrap(second)).exact


def test_what_is_said_beside_an_address_counts() -> None:
    one, other = (f"<Worker {name} at 0x7f0000000010>" for name in "ab")
    assert compared(one).digest != compared(other).digest


def test_a_hexadecimal_number_is_no_address() -> None:
    for text in ("0x{}", "CRC error at 0x{}", "<Sensor at 0x{:.4}>", "crc at 0x{}>"):
        one, other = (text.format(number) for number in ("1a2b3c4d", "99887766"))
        assert compared(one).digest != compared(other).digest


def test_addresses_in_the_midst_of_a_repr_do_not_count() -> None:
    texts = ("<weakref at 0x{0}; to 'A' at 0x{0}>", "<Future at 0x{} state=pending>", "<code object f at 0x{}, line 3>")
    for text in texts:
        one, other = (Plain(), Plain())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Plain, "__repr__", lambda self, text=text: text.format(f"{id(self):x}"))
            assert compared(one).digest == compared(other).digest
            assert compared(one).exact != compared(other).exact


def test_exact_and_digest_are_the_same_without_addresses() -> None:
    described = compared({"loss": [0.25, None]})
    assert described.exact == described.digest


def test_locks_and_files_are_told_by_what_they_are() -> None:
    with open(os.devnull) as one, open(os.devnull) as other:  # noqa: PTH123 - a file as programs have them
        assert compared(one).digest == compared(other).digest
    assert compared(threading.Lock()).digest == compared(threading.Lock()).digest


# -------------------------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    "value",
    [
        0.25,
        "a\x1b[2J\n",
        b"\x00",
        [1, [2.5, None], (1,), ()],
        {"a": {1}, 2: frozenset({3})},
        set(),
        frozenset(),
        range(3),
        array.array("d", [1.0]),
        bytearray(b"ab"),
        deque([1, "a"]),
        Counter("aab"),
        {1: 2}.keys(),
        sys.version_info,
        KeyError("x"),
    ],
)
def test_small_values_are_told_as_python_does(value: object) -> None:
    assert compared(value).text == repr(value)


@given(st.text(), st.integers(0, 40_000))
def test_text_is_bounded_and_can_be_sent(piece: str, times: int) -> None:
    for value in (piece * times, [piece] * (times // 100), (piece * times).encode("utf-8", "surrogatepass")):
        text = told(value).text
        assert len(text) <= MAX_VALUE_TEXT
        text.encode()


def test_long_text_is_abbreviated_in_its_middle_and_says_how_long_it_is() -> None:
    text = told(list(range(100_000))).text
    assert text.startswith("[0, 1, 2, ")
    assert f" … {len(repr(list(range(100_000)))):,} characters in all … " in text
    assert text.endswith(", 99998, 99999]")
    assert " … 100,002 characters in all … " in told("x" * 100_000).text
    assert told(b"x" * 100_000).text.count("100,003 characters in all") == 1


class Raises:
    """An object whose repr raises this error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class Shows:
    """An object whose repr returns this, a string or not."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def __repr__(self) -> str:
        return self.shown  # type: ignore[no-any-return]


class Mute(Exception):
    """An exception whose message raises."""

    def __str__(self) -> str:
        raise ValueError


def test_a_repr_that_raises_is_told_and_compared_by_its_error() -> None:
    described = compared([1, Raises(ValueError("no\nway"))])
    assert described.text == "[1, <Raises: repr raised ValueError: no\nway>]"
    assert described.digest == compared([1, Raises(ValueError("no\nway"))]).digest
    assert described.digest != compared([1, Raises(ValueError("no\nwhy"))]).digest
    assert compared(Raises(Mute())).text == "<Raises: repr raised Mute: >"
    assert len(compared(Raises(ValueError("x" * 10_000))).text) < 1000


def test_a_repr_that_is_no_text_is_told_as_the_error_that_it_is() -> None:
    assert "repr raised TypeError" in compared(Shows(7)).text


def test_a_repr_that_cannot_be_sent_is_made_so() -> None:
    one, other = compared(Shows("\ud800!")), compared(Shows("\ud801!"))
    assert one.text == "?!"
    assert one.digest != other.digest


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_an_interrupt_comes_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        told([Raises(error)])
