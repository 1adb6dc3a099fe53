"""Stock calls that a program has already go to the agent, until they are restored."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from types import FrameType, ModuleType

import pytest

from dbg_agent.program import stock_calls


@pytest.fixture
def stopped_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the functions in which the agent was asked to stop, instead of stopping there."""
    names: list[str] = []

    def stop_at(frame: FrameType, _arguments: Mapping[str, object], _unexpected: tuple[object, ...]) -> None:
        names.append(frame.f_code.co_name)

    monkeypatch.setattr(stock_calls, "stop_at", stop_at)
    yield names
    stock_calls.restore()


Asked = tuple[int, Mapping[str, object]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Asked]]:
    """Collect the lines at which the agent was asked to stop, and what it was told."""
    found: list[Asked] = []

    def stop_at(frame: FrameType, arguments: Mapping[str, object], _unexpected: tuple[object, ...]) -> None:
        assert frame.f_code.co_filename == __file__
        found.append((frame.f_lineno, arguments))

    monkeypatch.setattr(stock_calls, "stop_at", stop_at)
    monkeypatch.setattr(stock_calls, "_skipped", Counter())
    yield found
    stock_calls.restore()


@pytest.fixture
def torch_distributed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return what stands for torch.distributed, as loaded."""
    module = ModuleType("torch.distributed")
    vars(module)["breakpoint"] = lambda rank=0, skip=0, timeout_s=3600: None
    monkeypatch.setitem(sys.modules, "torch.distributed", module)
    return module


@pytest.fixture
def remote_pdb(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a freshly imported remote_pdb, which is forgotten after the test."""
    monkeypatch.delitem(sys.modules, "remote_pdb", raising=False)
    return importlib.import_module("remote_pdb")


def test_loaded_modules_are_redirected_and_restored(stopped_at: list[str], remote_pdb: ModuleType) -> None:
    before = remote_pdb.set_trace, remote_pdb.RemotePdb.__init__, remote_pdb.RemotePdb.set_trace
    made_before = remote_pdb.RemotePdb.__new__(remote_pdb.RemotePdb)
    stock_calls.redirect()
    stock_calls.redirect()
    remote_pdb.set_trace()
    remote_pdb.set_trace("10.0.0.1", 4444, quiet=True)
    debugger = remote_pdb.RemotePdb("10.0.0.1", 4444)
    debugger.set_trace()
    made_before.set_trace()
    here = "test_loaded_modules_are_redirected_and_restored"
    assert stopped_at == [here] * 4
    debugger.set_trace(sys._getframe(1))
    assert stopped_at[-1] != here
    stock_calls.restore()
    stock_calls.restore()
    assert (remote_pdb.set_trace, remote_pdb.RemotePdb.__init__, remote_pdb.RemotePdb.set_trace) == before
    debugger.set_trace()
    assert len(stopped_at) == 6


def test_modules_imported_later_are_redirected_and_look_untouched(
    stopped_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "remote_pdb", raising=False)
    finders = list(sys.meta_path)
    stock_calls.redirect()
    assert sys.meta_path != finders
    assert "remote_pdb" not in sys.modules
    module = importlib.import_module("remote_pdb")
    module.set_trace()
    assert stopped_at == ["test_modules_imported_later_are_redirected_and_look_untouched"]
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader
    stock_calls.restore()
    assert module.set_trace.__module__ == "remote_pdb"
    assert sys.meta_path == finders


def test_torchs_breakpoint_stops_one_rank_at_its_caller_and_holds_the_others(
    asked: list[Asked], torch_distributed: ModuleType
) -> None:
    stock = torch_distributed.breakpoint
    stock_calls.redirect()
    torch_distributed.breakpoint()
    torch_distributed.breakpoint(3, timeout_s=None)
    first = asked[0][0]
    assert asked == [(first, {"ranks": 0, "hold": True}), (first + 1, {"ranks": 3, "hold": True})]
    stock_calls.restore()
    assert torch_distributed.breakpoint is stock


def test_torchs_breakpoint_counts_what_it_skips_at_each_place_alone(
    asked: list[Asked], torch_distributed: ModuleType
) -> None:
    stock_calls.redirect()
    for _ in range(4):
        torch_distributed.breakpoint(skip=2)
        torch_distributed.breakpoint(rank=1, skip=3)
    ranks = [arguments["ranks"] for _, arguments in asked]
    assert ranks == [0, 0, 1]
    assert len({line for line, _ in asked}) == 2
