"""What `/proc` tells of a process."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from dbg_client.adopt.process import (
    all_pids,
    is_dumpable,
    mappings,
    may_trace,
    program_words,
    read_process,
    same_files,
    sleeps_for_good,
    system_call,
)


def test_this_process_is_seen_as_it_is() -> None:
    seen = read_process(os.getpid())
    assert seen is not None
    assert (seen.pid, seen.parent, seen.uid) == (os.getpid(), os.getppid(), os.getuid())
    assert seen.age > 0
    assert (seen.tracer, seen.state in "RS") == (0, True)
    assert seen.pid in all_pids()
    assert any("python" in path for path in mappings(seen.pid))
    assert same_files(seen.pid)
    assert may_trace(seen.pid)
    assert is_dumpable(seen)
    assert not sleeps_for_good(seen.pid)


def test_there_is_no_process_of_a_number_beyond_all() -> None:
    assert read_process(2**22 + 1) is None


def test_a_thread_that_waits_is_seen_in_its_call() -> None:
    end, ready = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    assert thread.native_id is not None
    try:
        assert system_call(os.getpid(), 2**22 + 1) is None
        assert system_call(os.getpid(), thread.native_id) is None or sys.platform == "linux"
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("python train.py --lr 1", "train.py --lr 1"),
        ("python -u -X dev -W error train.py", "train.py"),
        ("python -um torch.distributed.run x.py", "-m torch.distributed.run x.py"),
        ("python -m train", "-m train"),
        ("python -c pass", "-c pass"),
        ("python", ""),
    ],
)
def test_the_program_stands_behind_the_options(argv: str, words: str) -> None:
    assert " ".join(program_words(tuple(argv.split()))) == words
