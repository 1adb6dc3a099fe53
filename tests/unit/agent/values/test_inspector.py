"""Values are opened into parts without running the program's code; each part's expression yields the same text."""

from __future__ import annotations

import collections
import dataclasses
import enum
import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

import pytest
from hypothesis import given, settings

from dbg_agent.values.describe import describe
from dbg_agent.values.inspector import NoSuchHandle, Refused
from dbg_wire.records.inspection import MAX_VARIABLES, InspectionKind, Parts, Scope, Variable
from tests.conftest import Approved
from tests.unit.agent.values.inspected import PLENTY, VALUES, Sights, cut

Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Config:
    width: int
    names: list[str]


class Slotted:
    __slots__ = ("__dict__", "__weakref__", "left")
    shared = "shared"

    def __init__(self) -> None:
        self.left: object = 1
        self.extra = {"a": 1}

    @property
    def computed(self) -> int:
        return len(self.extra)


class OddItems(dict[str, int]):
    def __getitem__(self, key: str) -> int:
        return -1


class OwnList(list[int]):
    pass


def frame_with(value: object) -> FrameType:
    return sys._getframe()


def walk(sights: Sights, of: Variable, depth: int) -> Iterator[Variable]:
    """Yield a variable and its parts, so many levels deep."""
    yield of
    if of.handle and depth:
        for part in sights.parts(of).values():
            yield from walk(sights, part, depth - 1)


def check_each_part(value: object, depth: int = 1) -> list[Variable]:
    """Check that the text of each part is that of its expression, and return the value and the parts."""
    sights = Sights(frame_with(value))
    found = list(walk(sights, sights.parts()["value"], depth))
    for part in found:
        if part.expression:
            assert cut(sights.value(part.expression).text) == part.text, part
    return found


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_the_expression_of_each_part_yields_its_text(value: object) -> None:
    found = check_each_part(value, 12)
    assert found[0].text == cut(describe(value, seconds=PLENTY).text)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (Config(3, ["a"]), ["width", "names"]),
        (Point(1, [2]), ["x", "y"]),
        (Slotted(), ["extra", "left"]),
        (Colour.RED, []),
        (OddItems(a=1), ["'a'"]),
        (OwnList([5, 6]), ["0", "1"]),
        (collections.deque([1, 2]), ["0", "1"]),
        (collections.UserDict(a=1), ["'a'"]),
        (frozenset([3]), ["0"]),
        ({"a": 1}.items(), ["0"]),
        (KeyError("x"), ["args"]),
        (range(3, 5), ["0", "1"]),
        (range(10**30), []),
        (3.5, []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_each_kind_have_their_parts(value: object, names: list[str]) -> None:
    found = [part.name for part in check_each_part(value)[1:]]
    assert [name for name in found if not name.startswith("_")] == names


def test_modules_and_classes_show_their_names_and_pythons_own_last() -> None:
    module = ModuleType("made")
    exec("first = 1\n__odd__ = 2\nsecond = [3]", vars(module))  # noqa: S102 - a module's body
    names = [part.name for part in check_each_part(module)[1:]]
    assert [name for name in names if not name.startswith("__")] == ["first", "second"]
    assert names.index("second") < names.index("__odd__")
    of_class = {part.name: part for part in check_each_part(Slotted)[1:]}
    assert of_class["shared"].text == "'shared'"
    assert of_class["computed"].expression == "value.__dict__['computed']"


def test_pages_hold_the_parts_in_order() -> None:
    value = OwnList(range(1000))
    value.note = "noted"  # type: ignore[attr-defined] # a subclass of list has attributes
    sights = Sights(frame_with(value))
    whole = sights.parts()["value"]
    assert (whole.named, whole.indexed) == (1, 1000)
    assert [*sights.parts(whole)] == ["note", *map(str, range(MAX_VARIABLES - 1))]
    assert [*sights.parts(whole, start=1, count=2)] == ["0", "1"]
    assert [*sights.parts(whole, parts=Parts.NAMED)] == ["note"]
    assert [*sights.parts(whole, parts=Parts.INDEXED, start=998, count=5)] == ["998", "999"]
    assert sights.parts(whole, start=5000) == {}
    large = dict.fromkeys(range(100_000))
    sights = Sights(frame_with(large))
    assert [*sights.parts(sights.parts()["value"], start=99_999)] == ["99999"]


def noting(name: str, returns: object) -> Any:
    """Return a method that notes that it ran."""

    def method(*_arguments: object) -> object:
        RAN.append(name)
        return returns

    return method


RAN: list[str] = []
METHODS = {"__len__": 10, "__getitem__": 1, "__eq__": True, "__hash__": 0, "__bool__": True, "__dir__": []}
PROPERTIES = {"__class__": dict, "computed": 3}
Hostile = type(
    "Hostile",
    (),
    {name: noting(name, value) for name, value in (METHODS | {"__getattr__": None}).items()}
    | {name: property(noting(name, value)) for name, value in PROPERTIES.items()}
    | {"__repr__": lambda self: "hostile"},
)
"""An object all of whose own code is noted."""
WrongDictionary = type("WrongDictionary", (), {"__dict__": property(noting("__dict__", {}))})


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Endless:
    def __repr__(self) -> str:
        while True:
            time.sleep(0.001)


def test_listing_runs_no_code_of_the_program_but_repr() -> None:
    value = [Hostile(), WrongDictionary()]
    RAN.clear()
    sights = Sights(frame_with(value))
    found = sights.parts(sights.parts()["value"])
    assert (found["0"].text, found["0"].type) == ("hostile", "Hostile")
    assert found["0"].handle == 0
    assert RAN == []


def test_a_repr_that_raises_or_never_ends_affects_no_other_variable() -> None:
    def stopped() -> Any:
        before, raises, endless, also, after = 1, Unprintable(), Endless(), [Endless()], [2]
        return before and raises and endless and also and after and sys._getframe()

    found = Sights(stopped(), 0.4, keeps_time=True).parts()
    assert (found["before"].text, found["after"].text) == ("1", "[2]")
    assert found["raises"].text == "<Unprintable: repr raised RuntimeError: no text>"
    assert found["endless"].text.startswith("<interrupted after 0.")
    assert found["also"].text.startswith("<interrupted after 0.")


def test_recursive_and_huge_values_are_shown_quickly() -> None:
    recursive: list[Any] = [1]
    recursive.append(recursive)
    sights = Sights(frame_with(recursive))
    inner = sights.parts(sights.parts()["value"])["1"]
    assert inner.text == sights.value("value[1]").text
    for _ in range(20):
        inner = sights.parts(inner)["1"]
    assert inner.expression.count("[1]") == 21
    huge = [list(range(10**6)), "x" * 10**7, dict.fromkeys(range(10**5)), [[["["] * 50] * 50] * 200]
    sights = Sights(frame_with(huge))
    assert all(len(part.text) <= 2000 for part in sights.parts(sights.parts()["value"]).values())


def test_values_are_assigned_as_the_program_would(approved: Approved) -> None:
    value = {"list": [1, 2], "config": Config(1, []), "slotted": Slotted(), "tuple": (1, 2), "namespace": Point(1, 2)}
    sights = Sights(frame_with(value))
    top = sights.parts(sights.parts()["value"])
    assert sights.assign("1", "len('abc')", top["'list'"]).text == "3"
    assert sights.assign("width", "41 + 1", top["'config'"]).text == "42"
    assert sights.assign("left", "'new'", top["'slotted'"]).text == "'new'"
    assert sights.assign("'tuple'", "None", sights.parts()["value"]).text == "None"
    assert value["list"] == [1, 3]
    assert value["config"] == Config(42, [])
    refused = []
    wrong = [("x", "3", "namespace"), ("computed", "3", "slotted"), ("9", "3", "list"), ("1", "absent", "list")]
    for name, text, of in wrong:
        with pytest.raises(Refused) as caught:
            sights.assign(name, text, top[repr(of)])
        refused.append(str(caught.value).partition("Error: ")[0])  # Python words the rest
    approved(refused)


def test_handles_and_values_are_released_once_the_thread_continues(approved: Approved) -> None:
    ended_in: list[int] = []
    sights = Sights(frame_with(None))
    made = sights.value("[Slotted()]")
    weakref.finalize(sights.inspector.handles.find(made.handle)[0][0], lambda: ended_in.append(threading.get_ident()))
    assert sights.parts(made)["0"].handle
    assert ended_in == []
    sights.inspector.forget()
    gc.collect()
    assert ended_in == [threading.get_ident()]
    with pytest.raises(NoSuchHandle) as caught:
        sights.parts(made)
    approved(str(caught.value))
    again = sights.value("[1]")
    assert again.handle > made.handle


def test_the_oldest_values_are_dropped_first(approved: Approved) -> None:
    value = [[n] for n in range(100)]
    sights = Sights(frame_with(value))
    sights.inspector.handles._most = 50
    listed = sights.parts(sights.parts()["value"])
    with pytest.raises(NoSuchHandle) as caught:
        sights.parts(listed["0"])
    approved(str(caught.value))
    assert sights.parts(listed["99"])["0"].text == "99"


def test_globals_show_pythons_own_last_and_shadowed_ones_without_an_expression() -> None:
    def stopped() -> Any:
        Point = 3  # noqa: N806 - shadows the class
        return sys._getframe() if Point else None

    sights = Sights(stopped())
    names = [one.name for one in sights.look(sight=InspectionKind.PARTS, scope=Scope.GLOBALS).variables]
    first_own = next(index for index, name in enumerate(names) if name.startswith("__"))
    assert all(name.startswith("__") for name in names[first_own:])
    found = sights.parts(scope=Scope.GLOBALS)
    assert (found["Point"].expression, found["Colour"].expression) == ("", "Colour")
