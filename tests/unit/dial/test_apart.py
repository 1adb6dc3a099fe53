from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import partial

import pytest

from dbg_dial import apart as module
from dbg_dial.apart import apart, read_apart
from dbg_dial.find import Opening
from dbg_wire.errors import BadInput, SilentFile
from tests.conftest import Approved


def test_what_a_call_returns_or_raises_comes_out_of_its_thread() -> None:
    assert apart("here", threading.get_ident) != threading.get_ident()
    with pytest.raises(BadInput, match="no number"):
        apart("here", partial(fail, BadInput("no number", "give one")))


def fail(error: Exception) -> None:
    raise error


def test_a_call_that_hangs_is_given_up_and_the_path_named_that_it_has_touched_last(
    approved: Approved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enough = threading.Event()

    def read(opening: Opening) -> bool:
        opening("/home/me/broker.json")
        opening("/home/me/driver.json")
        return enough.wait()

    monkeypatch.setattr(module, "FILE_SECONDS", 0.05)
    with pytest.raises(SilentFile) as caught:
        read_apart(read)
    approved(str(caught.value))
    enough.set()


def test_a_thread_that_has_touched_nothing_yet_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin_late(call: Callable[[], object], tell: Callable[[object, None], object]) -> None:
        threading.Timer(0.1, lambda: tell(call(), None)).start()

    monkeypatch.setattr(module, "begin", begin_late)
    monkeypatch.setattr(module, "FILE_SECONDS", 0.01)
    assert read_apart(lambda opening: "read") == "read"


def test_ctrl_c_ends_the_wait_at_once() -> None:
    enough = threading.Event()

    def read(opening: Opening) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return enough.wait()

    # A process that a shell has started in the background ignores it.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            read_apart(read)
    finally:
        signal.signal(signal.SIGINT, former)
        enough.set()
