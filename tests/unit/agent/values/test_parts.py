"""Where two values differ is found through their parts, a bounded number at each step."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

from dbg_agent.values.parts import MAX_PARTS, parts_of


@dataclass
class Config:
    lr: float
    names: list[str]


class Held:
    """An object with the default repr."""

    def __init__(self, held: object) -> None:
        self.held = held


Point = namedtuple("Point", ["x", "y"])


def first(a: object, b: object) -> tuple[str, str, str]:
    """Return the label and the texts of the first part that differs, as a terminal finds it."""
    path: list[str] = []
    label, texts = "", ("", "")
    for _ in range(20):
        one, two = (parts_of(value, path, exact=False, seconds=20) for value in (a, b))
        assert max(len(one), len(two)) <= MAX_PARTS
        others = {part.step: part for part in two}
        found = [part for part in one if part.step in others and others[part.step].digest != part.digest]
        if not found:
            break
        path.append(found[0].step)
        label += found[0].label
        texts = found[0].text, others[found[0].step].text
    return label, *texts


def changed(size: int, at: int, by: Any) -> list[Any]:
    values: list[Any] = list(range(size))
    values[at] = by
    return values


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ([1, 2, 3], [1, 2, 4], ("[2]", "3", "4")),
        (changed(100_000, 77_777, "x"), changed(100_000, 77_777, "y"), ("[77777]", "'x'", "'y'")),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("['a']['b'][1]", "2", "3")),
        (
            {n: n for n in range(5000)},
            {n: n if n != 4321 else -1 for n in reversed(range(5000))},
            ("[4321]", "4321", "-1"),
        ),
        (OrderedDict(lr=0.1), OrderedDict(lr=0.2), ("['lr']", "0.1", "0.2")),
        (Config(0.1, ["a"]), Config(0.1, ["b"]), (".names[0]", "'a'", "'b'")),
        (Point(1, 2), Point(1, 3), (".y", "2", "3")),
        ([Held([1])], [Held([2])], ("[0].held[0]", "1", "2")),
        ("a" * 9999, "a" * 5000 + "b" + "a" * 4998, ("[4992:5040]", repr("a" * 48), repr("a" * 8 + "b" + "a" * 39))),
    ],
    ids=["list", "long", "nested", "many keys", "ordered", "dataclass", "namedtuple", "object", "string"],
)
def test_the_first_difference_is_found(a: object, b: object, found: tuple[str, str, str]) -> None:
    assert first(a, b) == found
