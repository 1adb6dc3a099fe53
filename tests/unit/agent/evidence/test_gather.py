"""An answer holds what its look asks for: of all libraries, and of the process."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbg_agent.evidence import gather
from dbg_agent.evidence.gather import collectives_seen, evidence_of
from dbg_agent.host import descriptors, proc
from dbg_agent.host.descriptors import lock_holders, looked_up, openers, other_ends
from dbg_agent.host.process import process_seen
from dbg_agent.process.threads import own_thread
from dbg_wire.messages import DetailLevel
from dbg_wire.records.evidence import (
    MAX_COLLECTIVES,
    CollectiveSeen,
    CollectiveState,
    SourceSeen,
    evidence_in,
)
from tests.conftest import Approved
from tests.support.time_unit import seconds


def test_each_detail_level_includes_its_evidence() -> None:
    collectives = evidence_in(evidence_of(DetailLevel.COLLECTIVES, halted=None))
    assert collectives is not None
    assert collectives.waits == ()
    whole = evidence_in(evidence_of(DetailLevel.EVIDENCE, halted=threading.main_thread().ident))
    assert whole is not None
    assert whole.waits[0].is_main
    assert whole.process is not None


def seen(age: float | None, state: CollectiveState = CollectiveState.ENQUEUED) -> CollectiveSeen:
    """Return a collective that was called so long ago."""
    return CollectiveSeen(group="0", name="all_reduce", state=state, age=age)


def test_unfinished_collectives_are_first_oldest_first_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = seen(99.0, CollectiveState.COMPLETED)
    source = SourceSeen(library="torch")
    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [done, seen(1.0), source, seen(5.0)])
    monkeypatch.setattr(gather, "mpi_seen", lambda: [seen(None)])
    assert collectives_seen() == [source, seen(5.0), seen(1.0), seen(None), done]
    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [seen(1.0)] * 10_000)
    assert len(collectives_seen()) == MAX_COLLECTIVES


def test_a_library_that_cannot_be_read_is_reported(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise AttributeError("gone")

    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [])
    monkeypatch.setattr(gather, "mpi_seen", fails)
    (source,) = collectives_seen()
    assert isinstance(source, SourceSeen)
    assert source.library == "mpi4py"
    approved(source.limitation)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a search take as long as it does beside the processes of other tests."""
    monkeypatch.setattr(descriptors, "MAX_SECONDS", seconds(60))


def test_this_process_is_reported_with_growing_amounts() -> None:
    before = process_seen()
    sum(range(300_000))
    after = process_seen()
    assert before.state == "R"
    for name in ("main_cpu", "input"):
        assert getattr(before, name) < getattr(after, name)
    assert after.output is not None


def test_reads_by_our_threads_are_not_input_of_the_program() -> None:
    seen: list[float] = []

    def look() -> None:
        amount = process_seen().input
        assert amount is not None
        seen.append(amount)

    def read() -> None:
        with Path("/dev/zero").open("rb", buffering=0) as zeros:
            zeros.read(4 << 20)

    def look_and_read() -> None:
        look()
        reader = own_thread(read, "dbg-agent-test")
        reader.start()
        reader.join()
        read()
        look()

    looking = own_thread(look_and_read, "dbg-agent-test")
    looking.start()
    looking.join()
    read()
    look()

    by_us, by_program = seen[1] - seen[0], seen[2] - seen[1]
    assert by_us < 1 << 20
    assert 4 << 20 <= by_program < 5 << 20


TRACED = {"/proc/self/status": "State:\tt (tracing stop)\nTracerPid:\t812\n"}
FOREIGN = {"/proc/self/status": "State:\nTracerPid: -1\n", "/proc/self/cgroup": "::\nx\n4:memory:"}


@pytest.mark.parametrize(
    ("files", "state", "tracer"),
    [({}, "", None), (TRACED, "t", 812), (FOREIGN, "", None)],
    ids=["none", "traced", "foreign"],
)
def test_the_kernels_files_are_read(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], state: str, tracer: int | None
) -> None:
    monkeypatch.setattr(proc, "read_proc", lambda path: files.get(path, ""))
    seen = process_seen()
    assert (seen.state, seen.tracer and seen.tracer.pid, seen.killed, seen.input) == (state, tracer, 0, None)


def test_the_process_that_locked_a_file_is_found_but_not_one_that_only_opened_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as file, ExitStack() as others:
        assert (lock_holders(str(path)), openers(str(path))) == ([], [os.getpid()])
        fcntl.flock(file, fcntl.LOCK_EX)
        # The kernel gives a page of its list at a time, the newest locks first.
        for number in range(200):
            fcntl.flock(others.enter_context((tmp_path / str(number)).open("w")), fcntl.LOCK_EX)
        assert lock_holders(str(path)) == [os.getpid()]
    assert (lock_holders(str(path)), openers(str(path))) == ([], [])


def test_a_path_is_resolved_unless_its_file_system_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    path = str(tmp_path / "link" / "lock")
    assert looked_up(path).path == str(tmp_path / "data" / "lock")

    answers, asked = threading.Event(), []

    def hangs(path: str) -> str:
        asked.append(path)
        answers.wait()
        return "/elsewhere"

    monkeypatch.setattr(descriptors, "FILE_SECONDS", 0.01)
    monkeypatch.setattr(os.path, "realpath", hangs)
    assert [looked_up(path).path, looked_up("/other").path] == [path, "/other"]
    assert asked == [path]
    answers.set()


def test_the_other_end_of_a_pipe_has_the_other_direction() -> None:
    reading, writing = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{reading}")  # noqa: PTH115 - a link that names no path
    assert other_ends(pipe, reads=True) == other_ends(pipe, reads=False) == [os.getpid()]
    os.close(writing)
    assert (other_ends(pipe, reads=True), other_ends(pipe, reads=False)) == ([], [os.getpid()])
    os.close(reading)
