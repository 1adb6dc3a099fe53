"""Process groups have the longer timeout from their creation on, and their own again afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType

import pytest

from dbg_agent.settings import read_settings
from dbg_agent.torch.group_timeouts import MODULE, GroupTimeouts, shortest
from tests.support.fake_groups import FakeBackend, FakeC10d, FakeGroup, FakeStore

LONG = 60.0


@pytest.fixture
def c10d(monkeypatch: pytest.MonkeyPatch) -> FakeC10d:
    """Return what stands for torch's module, as loaded."""
    module = FakeC10d()
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


@pytest.fixture
def timeouts() -> Iterator[GroupTimeouts]:
    """Return timeouts that are not changed yet."""
    made = GroupTimeouts()
    yield made
    made.uninstall()


def test_all_groups_have_the_long_timeout_until_their_own_is_restored(c10d: FakeC10d, timeouts: GroupTimeouts) -> None:
    store = FakeStore(timedelta(seconds=4))
    before = c10d.create("0", 5, store)
    timeouts.install(LONG)
    after = c10d.create("1", 7, store)
    longer = c10d.create("2", 90, store)
    assert [backend.seconds for backend in (before, after, longer)] == [60, 60, 90]
    assert c10d.created_with[1:] == [timedelta(seconds=60), timedelta(seconds=90)]
    assert store.timeout == timedelta(seconds=60)
    timeouts.restore()
    assert [backend.seconds for backend in (before, after, longer)] == [5, 7, 90]
    assert store.timeout == timedelta(seconds=4)
    assert c10d.create("3", 8, store).seconds == 8
    timeouts.raise_again()
    assert [backend.seconds for backend in (before, after)] == [60, 60]
    assert c10d.create("4", 9, store).seconds == 60


def test_the_store_of_the_first_group_has_the_timeout_before_the_group_waits(
    c10d: FakeC10d, timeouts: GroupTimeouts
) -> None:
    store = FakeStore(timedelta(seconds=5))
    stock, seen = c10d._new_process_group_helper, []

    def look(*arguments: object, **options: object) -> object:
        seen.append(store.timeout.total_seconds())
        return stock(*arguments, **options)

    c10d._new_process_group_helper = look
    timeouts.install(LONG)
    c10d.create("0", 5, store)
    assert seen == [60]
    timeouts.restore()
    assert store.timeout == timedelta(seconds=5)


def test_a_timeout_set_by_the_program_is_kept(c10d: FakeC10d, timeouts: GroupTimeouts) -> None:
    backend = c10d.create("0", 5, FakeStore(timedelta(seconds=5)))
    timeouts.install(LONG)
    backend._set_default_timeout(timedelta(seconds=11))
    timeouts.restore()
    assert backend.seconds == 11


def test_a_group_does_not_take_the_timeout_of_a_destroyed_one_of_its_name(
    c10d: FakeC10d, timeouts: GroupTimeouts
) -> None:
    timeouts.install(LONG)
    c10d.create("0", 5, FakeStore(timedelta(seconds=5)))
    c10d.destroy()
    store = FakeStore(timedelta(seconds=8))
    again = c10d.create("0", 8, store)
    assert again.seconds == 60
    timeouts.restore()
    assert (again.seconds, store.timeout) == (8, timedelta(seconds=8))


@pytest.mark.parametrize("by_helper", [True, False], ids=["with options of its own", "split"])
def test_a_group_timeout_the_helper_does_not_get_is_raised_afterwards(
    c10d: FakeC10d, timeouts: GroupTimeouts, by_helper: bool
) -> None:
    timeouts.install(LONG)
    nccl = FakeBackend("nccl", timedelta(seconds=5))
    if by_helper:
        c10d.create("0", 5, FakeStore(timedelta(seconds=5)), backend_options=nccl)
        assert c10d.created_with == [timedelta(seconds=5)]
    else:
        c10d._register_pg_in_world(FakeGroup(cuda=nccl), "1", "nccl", None)
    assert nccl.seconds == 60
    timeouts.restore()
    assert nccl.seconds == 5


def test_uninstalling_restores_the_module(c10d: FakeC10d, timeouts: GroupTimeouts) -> None:
    stock = c10d._new_process_group_helper, c10d._register_pg_in_world
    timeouts.install(LONG)
    timeouts.install(2 * LONG)
    backend = c10d.create("0", 5, FakeStore(timedelta(seconds=5)))
    assert backend.seconds == 2 * LONG
    timeouts.uninstall()
    assert (c10d._new_process_group_helper, c10d._register_pg_in_world) == stock
    assert (backend.seconds, timeouts.seconds) == (5, None)
    timeouts.raise_again()
    assert backend.seconds == 5


def test_a_backend_without_a_timeout_is_left_alone(c10d: FakeC10d, timeouts: GroupTimeouts) -> None:
    fixed = FakeBackend("ucc", timedelta(seconds=5), fixed=True)
    strange = FakeGroup(cpu=object())
    for name, group in (("0", strange), ("1", FakeGroup(cpu=fixed))):
        c10d._register_pg_in_world(group, name, "other", None)
    timeouts.install(LONG)
    backend = c10d.create("2", 5, None)
    assert (fixed.seconds, backend.seconds) == (5, 60)
    timeouts.restore()
    assert backend.seconds == 5


@pytest.mark.parametrize("broken", ["_world", "_register_pg_in_world"])
def test_groups_are_made_whatever_torch_looks_like_inside(broken: str, c10d: FakeC10d, timeouts: GroupTimeouts) -> None:
    made = ModuleType("made")
    c10d._new_process_group_helper = lambda *_, **__: made
    vars(c10d)[broken] = None
    timeouts.install(LONG)
    assert c10d._new_process_group_helper(timeout=timedelta(seconds=5)) is made
    timeouts.restore()


def test_the_shortest_timeout_is_the_first_to_expire(c10d: FakeC10d, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shortest() is None
    alone = FakeBackend("gloo", timedelta(seconds=1), size=1)
    nccl = FakeBackend("nccl", timedelta(minutes=10))
    gloo = FakeBackend("gloo", timedelta(minutes=30))
    c10d._register_pg_in_world(FakeGroup(cpu=gloo, cuda=nccl), "0", "", None)
    c10d._register_pg_in_world(FakeGroup(cpu=alone), "1", "", None)
    assert shortest() == ("nccl", 600)
    monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    assert shortest() == ("gloo", 1800)
    monkeypatch.setenv("TORCH_NCCL_BLOCKING_WAIT", "1")
    assert shortest() == ("nccl", 600)


def test_torch_is_not_loaded_where_it_is_not_used(monkeypatch: pytest.MonkeyPatch, timeouts: GroupTimeouts) -> None:
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    timeouts.install(LONG)
    timeouts.raise_again()
    timeouts.restore()
    assert shortest() is None
    assert MODULE not in sys.modules


@pytest.mark.parametrize(
    ("given", "taken"), [(3600, 3600.0), ("90", 90.0), (0, None), ("0", None), (-1, None), (1e9, None), ("long", None)]
)
def test_invalid_seconds_cause_a_warning_and_zero_disables_the_timeout(given: object, taken: float | None) -> None:
    warned: list[str] = []
    settings = read_settings("install", {"collective_timeout": given}, (), {}, warned.append)
    assert settings.collective_timeout == taken
    assert bool(warned) == (taken is None and given not in (0, "0"))
