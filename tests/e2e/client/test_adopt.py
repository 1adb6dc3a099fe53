"""Each obstacle to an adoption is found before the process is changed, and reported with a remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbg_client.adopt import one
from dbg_client.adopt.inject import Pipe
from dbg_client.adopt.one import adopt_one, examine, folders_of_ours
from dbg_client.adopt.payload import Outcome, code_to_adopt
from dbg_client.adopt.process import CantAdopt, NoSuchProcess, ProcessInfo, TargetPython, find_python, read_process
from tests.conftest import Approved
from tests.support.requirements import needs_gdb

Patch = tuple[object, str, object]


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A Python process that sleeps in a function."""
    program = "import time\ndef wait_for_shard():\n    print(flush=True)\n    time.sleep(1000)\nwait_for_shard()\n"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
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
    """Return why a process can't be adopted, without its number."""
    with pytest.raises(CantAdopt) as caught:
        examine(pid)
    return str(caught.value).replace(str(pid), "PID")


def seeing(**fields: object) -> Patch:
    """Have a look at any process show other values."""

    def changed(pid: int) -> ProcessInfo | None:
        seen = read_process(pid)
        return replace(seen, **fields) if seen is not None else None  # type: ignore[arg-type]

    return one, "read_process", changed


def with_python(**fields: object) -> Patch:
    """Have a look at any process's Python show other values."""

    def changed(pid: int, mapped: object) -> TargetPython | None:
        found = find_python(pid, mapped)  # type: ignore[arg-type]
        return replace(found, **fields) if found is not None else None  # type: ignore[arg-type]

    return one, "find_python", changed


def test_a_sleeping_python_is_ready_for_adoption(sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one, "find_gdb", lambda: "/usr/bin/gdb")
    ready = examine(sleeper)
    assert ready.python.version == sys.version_info[:2]
    assert len(ready.python.memory) > 100_000


def test_only_another_process_that_runs_python_can_be_adopted(approved: Approved, other: int) -> None:
    approved(refusal(other))
    approved(refusal(os.getpid()), "this command")
    with pytest.raises(NoSuchProcess):
        examine(2**22 + 1)


HAS_GDB: Patch = (one, "find_gdb", lambda: "/usr/bin/gdb")

HINDRANCES: dict[str, tuple[Patch, ...]] = {
    "a zombie": (seeing(state="Z"),),
    "suspended": (seeing(state="T"),),
    "traced": (seeing(tracer=1),),
    "in a container": ((one, "same_files", lambda _: False),),
    "a broker": (seeing(argv=("python", "-m", "dbg_broker", "serve")),),
    "threads that sleep for good": ((one, "sleeps_for_good", lambda _: True),),
    "of another user": (seeing(uid=12345),),
    "the kernel": ((one, "may_trace", lambda _: False),),
    "an old Python": (HAS_GDB, with_python(version=(3, 9))),
    "an unknown Python": (HAS_GDB, with_python(version=None)),
    "musl": (HAS_GDB, with_python(is_musl=True)),
    "without the GIL": (HAS_GDB, with_python(free_threaded=True)),
    "no debugger": ((one, "find_gdb", lambda: None),),
}
"""What hinders an adoption, by what a look at the process or at this host would have to show."""


@pytest.mark.parametrize("hindrance", HINDRANCES)
def test_each_obstacle_to_adoption_is_reported(
    approved: Approved, sleeper: int, monkeypatch: pytest.MonkeyPatch, hindrance: str
) -> None:
    for target, name, value in HINDRANCES[hindrance]:
        monkeypatch.setattr(target, name, value)
    approved(refusal(sleeper))


@needs_gdb
def test_a_process_without_a_place_for_its_answer_is_left_alone(
    approved: Approved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker.json").write_text("{}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    program = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(CantAdopt) as caught:
            adopt_one(child.pid, {"DBG_HOME": str(tmp_path)})
        approved(str(caught.value))
        child.kill()


def test_the_folders_hold_what_a_rank_imports() -> None:
    folders = folders_of_ours()
    for name in ("dbg_agent", "dbg_wire", "dbg_dial", "websockets", "pudb"):
        assert any(os.path.exists(os.path.join(folder, name)) for folder in folders), name  # noqa: PTH110, PTH118
    assert len(set(folders)) == len(folders)


def test_threading_is_not_first_imported_in_another_thread(tmp_path: Path) -> None:
    pipe = Pipe(str(tmp_path))
    program = (
        "import _thread, sys\nassert 'threading' not in sys.modules\n"
        "done = _thread.allocate_lock()\ndone.acquire()\n"
        f"def work():\n    exec({code_to_adopt(pipe.path, {}, [])!r}, {{}})\n    done.release()\n"
        "_thread.start_new_thread(work, ())\ndone.acquire()\n"
        "print('threading' in sys.modules)\n"
    )
    try:
        ended = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
        answer = pipe.answer(10)
    finally:
        pipe.close()
    assert answer is not None
    if sys.version_info < (3, 13):
        assert (answer.outcome, ended.stdout) == (Outcome.BUSY, "False\n")
    assert not answer.main
