"""Modules are changed when they are loaded, a change that fails leaves the import alone, and half a module is none."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType

import pytest

import dbg_agent
from dbg_agent.process import imports
from dbg_agent.process.log import write_stderr
from dbg_agent.process.threads import SIGNAL_SECONDS, BoundedThreads, own_thread, wait_for
from tests.conftest import Approved
from tests.support.time_unit import seconds

PACKAGE = "package_for_late"
MODULE = f"{PACKAGE}.inner"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a package with one module that can be imported."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text(f"from .inner import value\nfrom {MODULE} import value as again\n")
    (folder / "inner.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in (PACKAGE, MODULE):
        sys.modules.pop(name, None)


def set_two(module: ModuleType) -> None:
    vars(module)["value"] = 2


@pytest.mark.parametrize(("changed", "values"), [(MODULE, (2, 2, 2)), (PACKAGE, (2, 1, 1))])
def test_a_module_or_package_is_changed_before_its_names_are_imported(
    package: Path, changed: str, values: tuple[int, int, int]
) -> None:
    imports.when_loaded(changed, set_two)
    try:
        imported = importlib.import_module(PACKAGE)
    finally:
        imports.forget(changed, set_two)
    assert (imported.value, imported.inner.value, imported.again) == values


def test_a_module_whose_import_has_not_ended_is_not_loaded(package: Path) -> None:
    (package / "inner.py").write_text(
        "from dbg_agent.process.imports import loaded\nduring = loaded(__name__)\nvalue = 1\n"
    )
    assert imports.loaded(MODULE) is None
    module = importlib.import_module(MODULE)
    assert module.during is None
    assert imports.loaded(MODULE) is module


def test_a_forgotten_module_is_not_changed_and_leaves_no_finder(package: Path) -> None:
    before = list(sys.meta_path)
    imports.when_loaded(MODULE, set_two)
    imports.forget(MODULE, set_two)
    imports.forget(MODULE, set_two)
    assert importlib.import_module(MODULE).value == 1
    assert sys.meta_path == before


def test_a_failed_change_does_not_disturb_the_import(
    approved: Approved, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(module: ModuleType) -> None:
        raise AttributeError(f"no such thing in {module.__name__}")

    imports.when_loaded(MODULE, fail)
    try:
        assert importlib.import_module(MODULE).value == 1
    finally:
        imports.forget(MODULE, fail)
    approved(capsys.readouterr().err)


def test_a_line_is_written_at_once_where_there_is_room(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        own = os.fdopen(os.dup(2), "w")
        patch.setattr(sys, "stderr", own)
        patch.setattr(sys, "__stderr__", own)
        write_stderr("hello \udcff")
        own.close()
    assert capfd.readouterr().err == "dbg-agent: hello \\udcff\n"
    stream = io.StringIO()
    for each in (stream, None, object()):
        monkeypatch.setattr(sys, "stderr", each)
        write_stderr("hello")
    assert stream.getvalue() == "dbg-agent: hello\n"


def test_every_signal_is_blocked_in_our_threads() -> None:
    blocked: list[set[int]] = []
    thread = own_thread(lambda: blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "dbg-agent-test")
    thread.start()
    thread.join()
    # The kernel lets nobody block these two.
    assert blocked == [signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]
    assert thread.daemon


def test_all_our_threads_are_made_in_one_place() -> None:
    folder = Path(dbg_agent.__file__).parent
    making = [str(path.relative_to(folder)) for path in folder.rglob("*.py") if "threading.Thread(" in path.read_text()]
    assert making == ["process/threads.py"]


def test_only_a_bounded_number_of_threads_work_at_once() -> None:
    threads, gate, done = BoundedThreads("dbg-agent-test", 2), threading.Event(), threading.Semaphore(0)

    def work() -> None:
        gate.wait()
        done.release()

    assert [threads.start(work) for _ in range(3)] == [True, True, False]
    gate.set()
    for _ in range(2):
        done.acquire()
    for thread in [one for one in threading.enumerate() if one.name == "dbg-agent-test"]:
        thread.join()
    assert threads.start(work)


def test_a_thread_that_cannot_start_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, done = BoundedThreads("dbg-agent-test", 1), threading.Event()

    def refuses(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        with pytest.raises(RuntimeError):
            threads.start(done.set)
    assert threads.start(done.set)
    assert done.wait(seconds(10))


def test_successive_calls_are_all_made() -> None:
    threads, interval = BoundedThreads("dbg-agent-test", 1), sys.getswitchinterval()
    # A thread that has answered is often suspended right behind that.
    sys.setswitchinterval(1e-6)
    try:
        assert [threads.within(seconds(10), lambda: "done", "refused") for _ in range(300)] == ["done"] * 300
    finally:
        sys.setswitchinterval(interval)


class Mine(BaseException):
    """What a signal handler of the program raises."""


def raises(_number: int, _frame: FrameType | None) -> None:
    raise Mine


def test_a_signal_that_another_thread_takes_ends_the_wait_of_the_main_thread() -> None:
    condition, begun = threading.Condition(), threading.Event()

    def take() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        begun.wait()
        # The main thread holds the condition until it waits.
        with condition:
            signal.pthread_kill(threading.get_ident(), signal.SIGALRM)

    former = signal.signal(signal.SIGALRM, raises)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    taking = threading.Thread(target=take)
    taking.start()
    try:
        with condition:
            begun.set()
            with pytest.raises(Mine):
                wait_for(condition, lambda: False, SIGNAL_SECONDS + seconds(20))
    finally:
        taking.join()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        signal.signal(signal.SIGALRM, former)


def test_a_wait_ends_when_its_condition_holds_or_its_time_is_over() -> None:
    condition = threading.Condition()
    came: list[int] = []

    def come() -> None:
        with condition:
            came.append(1)
            condition.notify_all()

    with condition:
        assert not wait_for(condition, lambda: bool(came), 0.01)
        threading.Timer(0.01, come).start()
        assert wait_for(condition, lambda: bool(came))
        assert wait_for(condition, lambda: bool(came), 0.0)
