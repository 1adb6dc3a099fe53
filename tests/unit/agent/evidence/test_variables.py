"""Reading the program's variables and calls runs none of its code, and changes none of them."""

from __future__ import annotations

import linecache
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from dbg_agent.evidence.locks import LOCK
from dbg_agent.frames.expressions import CallSite, call_site
from dbg_agent.frames.variables import (
    UNKNOWN,
    attribute,
    attributes,
    has_method,
    is_a,
    item,
    local,
    variable,
)

# -------------------------------------------------------------------------------------------------- parts of an object


def fails(*_arguments: object) -> Any:
    raise AssertionError("code of the program ran")


METHODS = "__getattribute__ __getattr__ __eq__ __hash__ __repr__ __bool__ __len__ __getitem__".split()  # noqa: SIM905
WithLock = type("WithLock", (), {**dict.fromkeys(METHODS, fails), "computed": property(fails)})
HostileDict = type("HostileDict", (dict,), dict.fromkeys(("__getitem__", "get", "__contains__"), fails))
OwnDict = type("OwnDict", (), {"__slots__": (), "__dict__": property(fails)})
Lazy = type("Lazy", (ModuleType,), {"__getattr__": fails})


class HostileMeta(type):
    __getattribute__ = __instancecheck__ = fails


class OfMeta(metaclass=HostileMeta):
    shared = threading.Lock()


def hostile() -> object:
    """Return an object each of whose special methods fails the test; it has a lock."""
    made: object = object.__new__(WithLock)
    object.__setattr__(made, "lock", threading.Lock())
    return made


VALUES: dict[str, Callable[[], object]] = {
    "hostile": hostile,
    "dictionary": HostileDict,
    "own dictionary": OwnDict,
    "class": lambda: OfMeta,
    "lazy module": lambda: Lazy("lazy"),
    "number": lambda: 5,
    "None": lambda: None,
    "unknown": lambda: UNKNOWN,
}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_reading_an_object_runs_none_of_its_code(make: Callable[[], object]) -> None:
    value = make()
    for name in ("acquire", "lock", "computed", "__class__", "__dict__", "missing"):
        attribute(value, name)
    attributes(value)
    assert not is_a(value, threading.Thread)
    assert not has_method(value, "no_such_method")
    for key in (0, "a", value):
        assert item(value, key) is UNKNOWN


def test_attributes_slots_class_attributes_and_modules_are_read() -> None:
    class Slotted:
        __slots__ = ("empty", "full")

    one, slotted = hostile(), Slotted()
    assert type(attribute(one, "lock")) is LOCK
    assert {attribute(one, name) for name in ("computed", "missing", "__class__", "__dict__")} == {UNKNOWN}
    assert list(attributes(one)) == ["lock"]
    slotted.full = 5  # type: ignore[attr-defined]
    assert attribute(slotted, "full") == 5
    assert attribute(slotted, "empty") is UNKNOWN
    assert type(attribute(OfMeta, "shared")) is LOCK
    assert type(attribute(object.__new__(OfMeta), "shared")) is LOCK
    assert attribute(sys, "path") is sys.path
    assert attribute(WithLock, "computed") is UNKNOWN


def test_items_of_plain_collections_are_read() -> None:
    assert (item([1, 2], 1), item((1, 2), -2), item({"a": 3}, "a")) == (2, 1, 3)
    assert item([1], 1) is item({}, "a") is item([1], 0.0) is UNKNOWN


# ------------------------------------------------------------------------------------------------ variables of a frame


def _frame() -> FrameType:
    return sys._getframe(1)


class Tensor:
    pass


def test_reading_a_variable_does_not_keep_it_alive() -> None:
    tensor = Tensor()
    gone = weakref.ref(tensor)
    frame = _frame()
    read: Callable[[], bool] = lambda: local(frame, "gone") is gone  # noqa: E731
    assert read()
    del tensor
    assert gone() is None


def test_closed_over_and_global_variables_are_read() -> None:
    outer = object()

    def inner() -> tuple[Any, Any]:
        assert outer is not None
        return local(_frame(), "outer"), local(_frame(), "later")

    assert inner() == (outer, UNKNOWN)
    assert variable(_frame(), "Tensor") is Tensor
    assert variable(_frame(), "len") is len
    assert variable(_frame(), "nothing") is UNKNOWN


def test_a_class_body_with_its_own_mapping_is_not_read() -> None:
    class Mapping(dict[str, Any]):
        get = fails

    class Meta(type):
        @classmethod
        def __prepare__(cls, *_args: Any, **_more: Any) -> Any:
            return Mapping()

        def __new__(cls, name: str, bases: Any, space: Any) -> Any:
            return type.__new__(cls, name, bases, dict(space))

    class Body(metaclass=Meta):
        found = local(_frame(), "__module__")

    assert Body.found is UNKNOWN


# --------------------------------------------- the call that a frame is in: C code, which calls back into the test

PATTERN = re.compile("a")
HOLDER = SimpleNamespace(pattern=PATTERN)
TEXT, COUNT = "a", 1
seen: list[CallSite | None] = []


def note(_: re.Match[str]) -> str:
    """Note what the caller of the C code is calling."""
    seen.append(call_site(sys._getframe(1)))
    return ""


def site_of(function: Callable[[], object]) -> CallSite:
    """Return what ``note`` has noted while this function ran."""
    seen.clear()
    function()
    (site,) = seen
    assert site is not None
    return site


def by_global() -> None:
    PATTERN.sub(note, "a", count=1)


def by_locals() -> str:
    mine, text, count = PATTERN, "a", 1
    return mine.sub(note, text, count)


def by_attribute() -> object:
    return HOLDER.pattern.sub(
        note,
        count=COUNT,
        string=TEXT,
    )


@pytest.mark.parametrize("function", [by_global, by_locals, by_attribute])
def test_the_object_method_and_arguments_of_a_call_are_read(function: Callable[[], object]) -> None:
    site = site_of(function)
    assert (site.called.owner, site.called.name) == (PATTERN, "sub")
    assert [site.argument(0, "repl"), site.argument(1, "string"), site.argument(2, "count")] == [note, "a", 1]
    assert site.argument(3, "more") is UNKNOWN


class WithProperty:
    """An object whose attribute is made by code of the program."""

    pattern = property(lambda self: PATTERN)


def test_a_value_that_needs_running_code_is_unknown() -> None:
    def computed() -> None:
        PATTERN.sub(note, "a" * len("b"), count=COUNT + 1)

    def by_property() -> None:
        thing = WithProperty()
        thing.pattern.sub(note, "a")

    def plain_function() -> None:
        sub = PATTERN.sub
        sub(note, "a")

    site = site_of(computed)
    assert (site.called.owner, site.positional, site.named) == (PATTERN, (note, UNKNOWN), {"count": COUNT + 1})
    # The property is not asked.
    site = site_of(by_property)
    assert (site.called.owner, site.called.name) == (UNKNOWN, "sub")
    site = site_of(plain_function)
    assert (site.called.text, site.called.owner, site.positional) == ("sub", UNKNOWN, (note, "a"))


# ------------------------------------------------------------------------------------------------ the source of a call


def called_in(text: str, running: str | None = None) -> CallSite:
    """Run ``called``, a function of a file with this text, perhaps edited since; return what was seen of its call."""
    linecache.cache["job.py"] = (len(text), None, text.splitlines(keepends=True), "job.py")
    space: dict[str, Any] = {"PATTERN": PATTERN, "OTHER": re.compile("b"), "note": note}
    with warnings.catch_warnings(action="ignore"):
        exec(compile(running or text, "job.py", "exec"), space)  # noqa: S102 - a program of the test
    return site_of(space["called"])


def test_a_program_with_odd_escape_sequences_is_read_without_its_warnings(capfd: pytest.CaptureFixture[str]) -> None:
    site = called_in('def called():\n    odd = "\\d"; PATTERN.sub(note, "a", 1); "\\400"\n')
    assert (site.called.text, site.positional) == ("PATTERN.sub", (note, "a", 1))
    assert called_in('def called():\n    PATTERN.sub(note, "a"); 0x1for odd in ()\n').called.text == "PATTERN.sub"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "edited",
    [
        "",
        "def called():\n    OTHER12.sub(note, 'a')\n",
        "def callee():\n    PATTERN.sub(note, 'a')\n",
        "def called():\n\n    PATTERN.sub(note, 'a')\n",
        "def called():\n    PATTERN.sub(note, 'a'\n",
    ],
)
def test_an_edited_file_shows_no_call(edited: str) -> None:
    assert called_in(edited, "def called():\n    PATTERN.sub(note, 'a')\n").called.text == ""


def test_a_method_on_its_own_line_is_found() -> None:
    site = called_in("def called():\n    (PATTERN\n     .sub(note,\n          'a'))\n")
    assert (site.called.text, site.positional) == ("PATTERN.sub", (note, "a"))


def test_the_call_that_made_the_object_is_read_too() -> None:
    site = called_in("import re\ndef called():\n    re.compile('a', flags=0).sub(note, 'a')\n")
    assert site.made is not None
    assert (site.made.called.text, site.made.positional, site.called.name) == ("re.compile", ("a",), "sub")
