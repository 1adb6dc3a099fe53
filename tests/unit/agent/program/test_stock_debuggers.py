"""Stock calls and objects of stock debuggers go to the agent, until they are restored."""

from __future__ import annotations

import gc
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any

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


Stop = tuple[str, str]
"""How the agent was asked to stop, or the exception that it was to keep, and the function."""


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Stop]]:
    """Collect where the agent was asked to stop, instead of stopping there."""
    found: list[Stop] = []

    def stop_at(frame: FrameType, *_: object, before_line: bool = False) -> None:
        found.append(("before" if before_line else "at", frame.f_code.co_name))

    def keep_here(error: BaseException, _arguments: Mapping[str, object], _unexpected: tuple[object, ...]) -> None:
        innermost = error.__traceback__
        while innermost is not None and innermost.tb_next is not None:
            innermost = innermost.tb_next
        found.append((type(error).__name__, innermost.tb_frame.f_code.co_name if innermost else ""))

    monkeypatch.setattr(stock_calls, "stop_at", stop_at)
    monkeypatch.setattr(stock_calls, "keep_here", keep_here)
    monkeypatch.setattr(stock_calls, "_told", False)
    stock_calls.redirect()
    yield found
    stock_calls.restore()


def made_remote_pdb() -> Any:
    return importlib.import_module("remote_pdb").RemotePdb("10.0.0.1", 4444)


def remote_pudb() -> Any:
    return importlib.import_module("pudb.remote").debugger(host="10.0.0.1", reverse=True)


BOTH = pytest.mark.parametrize("make", [made_remote_pdb, remote_pudb])


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("pudb.remote")
    monkeypatch.setattr(module, "_current", [None])
    return module


def work(step: int) -> int:
    return step + 1


def fails() -> None:
    raise ValueError("bad batch")


def caught() -> ValueError:
    try:
        fails()
    except ValueError as error:
        return error
    raise AssertionError


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Keep callbacks of the garbage collector, such as hypothesis's, from being the first call that is traced."""
    gc.disable()
    yield
    gc.enable()


@BOTH
@pytest.mark.usefixtures("no_collection")
def test_all_that_runs_something_stops_at_its_first_line(stops: list[Stop], make: Callable[[], Any]) -> None:
    debugger = make()
    space: dict[str, Any] = {"work": work}
    assert debugger.runcall(work, 1) == 2
    assert debugger.runcall(work, step=2) == 3
    assert debugger.runeval("work(3)", space) == 4
    debugger.run("found = work(4)", space)
    debugger.runctx("more = work(5)", space, space)
    assert (space["found"], space["more"]) == (5, 6)
    assert [name for _, name in stops] == ["work", "work", "<module>", "<module>", "<module>"]
    assert {how for how, _ in stops} == {"before"}
    assert sys.gettrace() is None


@BOTH
def test_what_the_program_raises_comes_out_and_a_built_in_function_has_no_line_to_stop_at(
    stops: list[Stop], make: Callable[[], Any]
) -> None:
    assert make().runcall(len, "abc") == 3
    assert stops == []
    with pytest.raises(ValueError, match="bad batch"):
        make().runcall(fails)
    assert stops == [("before", "fails")]
    assert sys.gettrace() is None


@BOTH
def test_interaction_takes_frames_and_exceptions_in_all_their_forms(stops: list[Stop], make: Callable[[], Any]) -> None:
    debugger, error = make(), caught()
    debugger.reset()
    debugger.interaction(None, error)
    debugger.interaction(None, (type(error), error, error.__traceback__))
    debugger.interaction(sys._getframe(), None)
    assert stops == [
        ("ValueError", "fails"),
        ("ValueError", "fails"),
        ("at", "test_interaction_takes_frames_and_exceptions_in_all_their_forms"),
    ]
    stops.clear()
    debugger.interaction(None, error.__traceback__)
    assert stops[0][1] == "fails"


def test_pudbs_functions_dial_nobody(stops: list[Stop], no_session: Any) -> None:
    assert no_session.debugger(host="10.0.0.1", reverse=True) is no_session.debugger()
    no_session.debugger().close_remote_session()
    for post_mortem in (no_session.post_mortem, no_session.pm):
        try:
            fails()
        except ValueError:
            post_mortem(host="10.0.0.1", reverse=True)
    post_mortem(caught().__traceback__)
    assert [name for _, name in stops] == ["fails"] * 3


def test_streams_that_are_not_patched_are_told_once(stops: list[Stop], capfd: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module("remote_pdb")
    before = sys.stdin, sys.stdout, sys.stderr
    module.set_trace("10.0.0.1", 4444, quiet=True)
    assert "patch_stdstreams" not in capfd.readouterr().err
    module.set_trace("10.0.0.1", 4444, patch_stdstreams=True)
    module.RemotePdb("10.0.0.1", 4444, True)
    assert capfd.readouterr().err.count("patch_stdstreams is ignored") == 1
    assert (sys.stdin, sys.stdout, sys.stderr) == before
    assert len(stops) == 2


def test_a_module_that_is_not_there_fails_as_ever(stopped_at: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "remote_pdb", raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    stock_calls.redirect()
    with pytest.raises(ModuleNotFoundError, match="remote_pdb"):
        importlib.import_module("remote_pdb")
    assert stopped_at == []
