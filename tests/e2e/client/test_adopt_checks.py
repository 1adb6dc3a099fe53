"""Each way in which a process can't be adopted is found out before it is touched, and said with a remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbg_client.adopt import checks
from dbg_client.adopt.checks import examine
from dbg_client.adopt.errors import CantAdopt, NoSuchProcess
from dbg_client.adopt.process import ProcessInfo, read_process
from dbg_client.adopt.python import TargetPython, find_python
from tests.conftest import Approved


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A Python process that sleeps."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.fixture
def other() -> Iterator[int]:
    """A process that is no Python."""
    command = [shutil.which("cat") or "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # The kernel names the process only after the file descriptors of Python are closed.
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid
        process.kill()


def refusal(pid: int) -> str:
    """Return why a process can't be adopted."""
    with pytest.raises(CantAdopt) as caught:
        examine(pid)
    return str(caught.value)


def change_seen(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    """Have a look at any process show other values."""

    def changed(pid: int) -> ProcessInfo | None:
        seen = read_process(pid)
        return replace(seen, **fields) if seen is not None else None  # type: ignore[arg-type]

    monkeypatch.setattr(checks, "read_process", changed)


def change_python(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    """Have a look at any process's Python show other values."""

    def changed(pid: int, mapped: object) -> TargetPython | None:
        found = find_python(pid, mapped)  # type: ignore[arg-type]
        return replace(found, **fields) if found is not None else None  # type: ignore[arg-type]

    monkeypatch.setattr(checks, "find_python", changed)


def test_a_python_that_sleeps_is_ready(sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_gdb", lambda: "/usr/bin/gdb")
    ready = examine(sleeper)
    assert ready.python.version == sys.version_info[:2]
    assert not ready.python.missing
    assert ready.python.functions["PyGILState_Ensure"] > 0
    assert len(ready.python.runtime) > 100


def test_there_must_be_such_a_process() -> None:
    with pytest.raises(NoSuchProcess, match="does not exist"):
        examine(2**22 + 1)


def test_it_must_be_python(approved: Approved, other: int) -> None:
    approved(refusal(other))


def test_it_must_not_be_this_command(approved: Approved) -> None:
    approved(refusal(os.getpid()))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"state": "Z"}, "has ended"),
        ({"state": "T"}, "is suspended; `kill -CONT "),
        ({"tracer": 1}, "is traced by process 1"),
        ({"numbers": (1, 2)}, "is in a container"),
        ({"argv": ("python", "-m", "dbg_broker", "serve")}, "belongs to dbg-broker itself"),
    ],
)
def test_its_state_must_allow_it(
    sleeper: int, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], sentence: str
) -> None:
    change_seen(monkeypatch, **fields)
    assert sentence in refusal(sleeper)


def test_it_must_be_the_users(approved: Approved, sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    approved(refusal(sleeper))


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [(0, "--cap-add SYS_PTRACE"), (1, "ptrace_scope is 1; root can"), (2, "scope is 2; root can"), (3, "a reboot")],
)
def test_the_kernel_must_allow_it(sleeper: int, monkeypatch: pytest.MonkeyPatch, scope: int, sentence: str) -> None:
    monkeypatch.setattr(checks, "may_trace", lambda pid: False)
    monkeypatch.setattr(checks, "traces_others", lambda: False)
    monkeypatch.setattr(checks, "yama_scope", lambda: scope)
    assert sentence in refusal(sleeper)


def test_a_thread_that_nothing_interrupts_forbids_it(sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "sleeps_for_good", lambda pid: True)
    assert "waits in the kernel where no debugger can stop it" in refusal(sleeper)


@pytest.mark.parametrize(
    "fields",
    [
        {"version": (3, 9)},
        {"version": None},
        {"is_musl": True},
        {"free_threaded": True},
        {"missing": ("PyGILState_Ensure",)},
    ],
)
def test_its_python_must_allow_it(
    approved: Approved, sleeper: int, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object]
) -> None:
    monkeypatch.setattr(checks, "find_gdb", lambda: "/usr/bin/gdb")
    change_python(monkeypatch, **fields)
    approved(refusal(sleeper))


def test_there_must_be_a_debugger(approved: Approved, sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_gdb", lambda: None)
    approved(refusal(sleeper))


def test_a_stripped_python_is_known_by_its_file(tmp_path: Path) -> None:
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("strip is not installed")
    library = tmp_path / "cat"
    shutil.copy(shutil.which("cat") or "/bin/cat", library)
    subprocess.run([strip, str(library)], check=True)
    from dbg_client.adopt.python import Elf

    assert not Elf(library.read_bytes()).addresses(["PyGILState_Ensure"])
