"""Stock calls and objects of stock debuggers go to the agent, until they are restored."""

from __future__ import annotations

import importlib
import io
import sys
import threading
from collections.abc import Iterator, Mapping
from pdb import Pdb
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from dbg_agent.program import entry, stock_calls
from tests.conftest import Approved


@pytest.fixture
def stopped_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the functions in which the agent was asked to stop, instead of stopping there."""
    names: list[str] = []

    def stop_at(frame: FrameType, _arguments: Mapping[str, object], _unexpected: tuple[object, ...]) -> None:
        names.append(frame.f_code.co_name)

    monkeypatch.setattr(entry, "stop_at", stop_at)
    yield names
    stock_calls.restore()


Asked = tuple[int, Mapping[str, object]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Asked]]:
    """Collect the lines at which the agent was asked to stop, and with what arguments."""
    found: list[Asked] = []

    def stop_at(frame: FrameType, arguments: Mapping[str, object], _unexpected: tuple[object, ...]) -> None:
        assert frame.f_code.co_filename == __file__
        found.append((frame.f_lineno, arguments))

    monkeypatch.setattr(entry, "stop_at", stop_at)
    monkeypatch.setattr(stock_calls, "_skipped", {})
    yield found
    stock_calls.restore()


def stock_breakpoint(rank: int, skip: int, timeout_s: int | None) -> str:
    return "stock"


@pytest.fixture
def torch_distributed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return what stands for torch.distributed, as loaded."""
    module = ModuleType("torch.distributed")
    vars(module)["breakpoint"] = FunctionType(stock_breakpoint.__code__, vars(module), argdefs=(0, 0, 3600))
    monkeypatch.setitem(sys.modules, "torch.distributed", module)
    return module


@pytest.fixture
def remote_pdb(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a freshly imported remote_pdb, which is forgotten after the test."""
    monkeypatch.delitem(sys.modules, "remote_pdb", raising=False)
    return importlib.import_module("remote_pdb")


def test_loaded_modules_are_redirected_and_restored(stopped_at: list[str], remote_pdb: ModuleType) -> None:
    before = dict(vars(remote_pdb.RemotePdb)), dict(vars(Pdb)), sys.breakpointhook
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
    assert (dict(vars(remote_pdb.RemotePdb)), dict(vars(Pdb)), sys.breakpointhook) == before
    debugger.set_trace()
    assert len(stopped_at) == 6


def test_modules_imported_later_are_redirected_and_look_untouched(
    stopped_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "remote_pdb", raising=False)
    finders = list(sys.meta_path)
    stock_calls.redirect()
    assert "remote_pdb" not in sys.modules
    module = importlib.import_module("remote_pdb")
    module.set_trace()
    assert stopped_at == ["test_modules_imported_later_are_redirected_and_look_untouched"]
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader
    stock_calls.restore()
    assert sys.meta_path == finders


def test_torchs_breakpoint_stops_one_rank_at_its_caller_and_holds_the_others(
    asked: list[Asked], torch_distributed: ModuleType
) -> None:
    imported = torch_distributed.breakpoint
    stock_calls.redirect()
    imported()
    torch_distributed.breakpoint(3, timeout_s=None)
    first = asked[0][0]
    assert asked == [(first, {"ranks": 0, "hold": True}), (first + 1, {"ranks": 3, "hold": True})]
    stock_calls.restore()
    assert torch_distributed.breakpoint() == "stock"


def test_torchs_breakpoint_counts_skips_at_each_place_separately(
    asked: list[Asked], torch_distributed: ModuleType
) -> None:
    stock_calls.redirect()
    for _ in range(4):
        torch_distributed.breakpoint(skip=2)
        torch_distributed.breakpoint(rank=1, skip=3)
    ranks = [arguments["ranks"] for _, arguments in asked]
    assert ranks == [0, 0, 1]
    assert len({line for line, _ in asked}) == 2


class ThreadLocalWorld:
    """Stand for the world of torch's ``multi_threaded_pg``."""


def test_only_the_requested_rank_among_threads_stops(
    asked: list[Asked], torch_distributed: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    c10d: Any = ModuleType("torch.distributed.distributed_c10d")
    c10d._world, c10d.is_initialized, c10d.get_rank = ThreadLocalWorld(), lambda: True, threading.get_ident
    monkeypatch.setitem(sys.modules, c10d.__name__, c10d)
    stock_calls.redirect()
    torch_distributed.breakpoint(rank=0)
    torch_distributed.breakpoint(rank=threading.get_ident())
    assert [arguments for _, arguments in asked] == [{}]


Stop = tuple[str, str]
"""How the agent was asked to stop, or the exception that it was to keep, and the function."""


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Stop]]:
    """Collect where the agent was asked to stop, instead of stopping there."""
    found: list[Stop] = []

    def stop_at(frame: FrameType, *_: object) -> None:
        found.append(("at", frame.f_code.co_name))

    def keep_here(error: BaseException, _arguments: Mapping[str, object], _unexpected: tuple[object, ...]) -> None:
        innermost = error.__traceback__
        while innermost is not None and innermost.tb_next is not None:
            innermost = innermost.tb_next
        found.append((type(error).__name__, innermost.tb_frame.f_code.co_name if innermost else ""))

    monkeypatch.setattr(entry, "stop_at", stop_at)
    monkeypatch.setattr(entry, "keep_here", keep_here)
    stock_calls.redirect()
    yield found
    stock_calls.restore()


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("pudb.remote")
    monkeypatch.setattr(module, "_current", [None])
    monkeypatch.setattr(sys, "stdin", sys.stdin)
    return module


def fails() -> None:
    raise ValueError("bad batch")


def caught() -> ValueError:
    try:
        fails()
    except ValueError as error:
        return error
    raise AssertionError


def test_an_object_with_streams_of_its_own_keeps_its_debugger(stops: list[Stop]) -> None:
    printed = io.StringIO()
    Pdb(stdin=io.StringIO("p 6 * 7\nc\n"), stdout=printed, nosigint=True, readrc=False).set_trace()
    assert stops == []
    assert "42" in printed.getvalue()
    assert __file__ in printed.getvalue()


def test_a_function_that_cannot_be_redirected_is_named(monkeypatch: pytest.MonkeyPatch, approved: Approved) -> None:
    lines: list[str] = []
    monkeypatch.setattr(stock_calls, "write_stderr", lines.append)
    module = ModuleType("torch.distributed")
    vars(module)["breakpoint"] = len
    monkeypatch.setitem(sys.modules, "torch.distributed", module)
    stock_calls.redirect()
    stock_calls.restore()
    approved("\n".join(lines))
    assert module.breakpoint is len


def test_pudbs_remote_functions_open_no_connection(stops: list[Stop], no_session: Any) -> None:
    assert no_session.debugger(host="10.0.0.1", reverse=True) is no_session.debugger()
    no_session.debugger().close_remote_session()
    for post_mortem in (no_session.post_mortem, no_session.pm):
        try:
            fails()
        except ValueError:
            post_mortem(host="10.0.0.1", reverse=True)
    post_mortem(caught().__traceback__)
    assert [name for _, name in stops] == ["fails"] * 3


def test_post_mortem_accepts_exceptions_in_all_forms(stops: list[Stop]) -> None:
    pdb, pudb = importlib.import_module("pdb"), importlib.import_module("pudb")
    error = caught()
    pdb.post_mortem(error.__traceback__)
    pdb.post_mortem(t=error.__traceback__)
    pudb.post_mortem(error.__traceback__, ValueError, error)
    pudb.post_mortem(tb=error.__traceback__, e_type=ValueError, e_value=error)
    importlib.import_module("pudb.remote").post_mortem((ValueError, error, error.__traceback__), term_size=(80, 24))
    assert [name for _, name in stops] == ["fails"] * 5
    assert [kind for kind, _ in stops[2:]] == ["ValueError"] * 3


def test_a_missing_module_fails_as_usual(stopped_at: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "remote_pdb", raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    stock_calls.redirect()
    with pytest.raises(ModuleNotFoundError, match="remote_pdb"):
        importlib.import_module("remote_pdb")
    assert stopped_at == []
