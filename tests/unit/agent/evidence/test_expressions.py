"""Which method a frame is calling, read from its code alone. The method is C code, which calls back into the test."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dbg_agent.evidence import gather
from dbg_agent.evidence.expressions import CallSite, call_site
from dbg_agent.evidence.late_errors import late_error_note
from dbg_agent.evidence.variables import UNKNOWN
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, GroupSeen
from tests.conftest import Approved

PATTERN = re.compile("a")
HOLDER = SimpleNamespace(pattern=PATTERN)
TEXT, COUNT = "a", 1
seen: list[CallSite | None] = []


def note(_: re.Match[str]) -> str:
    """Note what the caller of the C code is calling."""
    seen.append(call_site(sys._getframe(1)))
    return ""


def site_of(function: Callable[[], object]) -> CallSite | None:
    """Return what ``note`` has noted while this function ran."""
    seen.clear()
    function()
    (site,) = seen
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


def by_closure() -> None:
    mine = PATTERN

    def inner() -> bool:
        return bool(mine.sub(note, "a", 1)) or bool(mine)

    inner()


@pytest.mark.parametrize("function", [by_global, by_locals, by_attribute, by_closure])
def test_object_method_and_arguments_are_read(function: Callable[[], object]) -> None:
    site = site_of(function)
    assert site is not None
    assert (site.called.owner, site.called.name) == (PATTERN, "sub")
    assert [site.argument(0, "repl"), site.argument(1, "string"), site.argument(2, "count")] == [note, "a", 1]
    assert site.argument(3, "more") is UNKNOWN


class WithProperty:
    """An object whose attribute is made by code of the program."""

    @property
    def pattern(self) -> re.Pattern[str]:
        return PATTERN


def test_what_would_take_running_code_is_unknown() -> None:
    def computed() -> None:
        PATTERN.sub(note, "a" * len("b"), count=COUNT + 1)

    def by_property() -> None:
        thing = WithProperty()
        thing.pattern.sub(note, "a")

    site = site_of(computed)
    assert site is not None
    assert (site.called.owner, site.positional, site.named) == (PATTERN, (note, UNKNOWN), {"count": COUNT + 1})
    site = site_of(by_property)
    assert site is not None
    # The property is not asked.
    assert (site.called.owner, site.called.name) == (UNKNOWN, "sub")


def test_arguments_that_do_not_stand_in_the_code_are_unknown() -> None:
    def unpacked() -> None:
        arguments: Any = [note, "a"]
        PATTERN.sub(*arguments)

    def chosen() -> None:
        PATTERN.sub(note if seen is not None else str, "a")

    for function in (unpacked, chosen):
        site = site_of(function)
        assert site is not None
        assert (site.called.name, site.argument(0, "repl"), site.argument(2, "count", 0)) == ("sub", UNKNOWN, UNKNOWN)


def test_a_function_is_called_by_its_name_and_without_an_object() -> None:
    def plain_function() -> None:
        sub = PATTERN.sub
        sub(note, "a")

    site = site_of(plain_function)
    assert site is not None
    assert (site.called.text, site.called.owner, site.positional) == ("sub", UNKNOWN, (note, "a"))


def test_a_frame_that_calls_nothing_is_none() -> None:
    def generate() -> Iterator[int]:
        yield 1

    paused = generate()
    next(paused)
    assert call_site(paused.gi_frame) is None  # type: ignore[attr-defined]


CUDA = "RuntimeError: CUDA error: device-side assert triggered"
SEEN = [
    GroupSeen(library="torch", name="1", title="dp_0"),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.COMPLETED, sequence=3170, age=9.0),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.ENQUEUED, sequence=3171, age=1.0),
]


def test_the_last_collective_and_the_way_to_the_line_are_told(
    approved: Approved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "collectives_seen", lambda: SEEN)
    approved(late_error_note(CUDA, {}))
    approved(late_error_note("DistBackendError: NCCL error in: x.cpp", {}), "2")


def test_with_blocking_launches_the_line_is_right() -> None:
    assert late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "1"}) == ""
    assert "CUDA_LAUNCH_BLOCKING=1" in late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "0"})


def test_the_variable_is_that_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "HIP_LAUNCH_BLOCKING=1" in late_error_note("RuntimeError: HIP error: invalid device function", {})


def test_a_library_that_fails_to_tell_is_passed_over(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError

    monkeypatch.setattr(gather, "collectives_seen", fails)
    approved(late_error_note(CUDA, {}))


@pytest.mark.parametrize("text", ["OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "ValueError: ship"])
def test_an_error_that_comes_at_once_gets_no_note(text: str) -> None:
    assert late_error_note(text, {}) == ""
