"""Work is interrupted while it runs, and nothing is raised after it, whenever the interrupt comes."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dbg_agent.frames import stacks
from dbg_agent.frames.stacks import LOCKLESS
from dbg_agent.link.outgoing import Outgoing
from dbg_agent.stop import interruptible as module
from dbg_agent.stop.inbox import Inbox
from dbg_agent.stop.interruptible import INTERRUPT_SIGNAL, Interruptible
from tests.support.calls import in_thread


def never(_seconds: float, _call: Callable[[], None]) -> None:
    """Do not try again."""


@pytest.fixture
def interruptible() -> Interruptible:
    return Interruptible(never)


def interrupted(interruptible: Interruptible) -> int:
    """Return the ticket of work in this thread that was interrupted."""
    try:
        with interruptible.running() as ticket:
            threading.Timer(0.1, interruptible.interrupt, (ticket,)).start()
            spin()
    except KeyboardInterrupt:
        return ticket
    raise AssertionError("the work was not interrupted")


def spin() -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pass


def test_work_is_interrupted_in_the_main_thread_and_in_another(interruptible: Interruptible) -> None:
    ticket = interrupted(interruptible)
    assert interruptible.was_interrupted(ticket)
    assert signal.getsignal(INTERRUPT_SIGNAL) is signal.SIG_DFL
    tickets: list[int] = []
    assert in_thread(lambda: tickets.append(interrupted(interruptible))) == []
    assert tickets != [ticket]


class Finalized:
    """An object that does some work in its finalizer, of which Python drops the exceptions."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def __del__(self) -> None:
        self._work()


@pytest.mark.parametrize("run", [lambda work: work(), in_thread], ids=["main thread", "another thread"])
def test_an_interrupt_raised_in_a_finalizer_is_raised_again_and_not_printed(
    run: Callable[[Callable[[], None]], object], capfd: pytest.CaptureFixture[str]
) -> None:
    interruptible = Interruptible(lambda seconds, call: threading.Timer(seconds, call).start())
    before = sys.unraisablehook

    def work_for_long() -> None:
        with interruptible.running() as ticket:
            threading.Timer(0.1, interruptible.interrupt, (ticket,)).start()
            # The finalizer runs at once, so the interrupt is first raised in it.
            Finalized(spin)
            spin()

    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            work_for_long()

    run(work)
    assert capfd.readouterr().err == ""
    assert sys.unraisablehook is before


def test_an_error_of_a_finalizer_of_the_program_is_reported_as_usual(
    interruptible: Interruptible, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))

    def fail() -> None:
        raise KeyboardInterrupt

    with interruptible.running():
        Finalized(fail)
    assert reported == [KeyboardInterrupt]


def test_an_interrupt_is_never_raised_after_the_work_ends(interruptible: Interruptible) -> None:
    def work() -> None:
        for _ in range(200):
            try:
                with interruptible.running() as ticket:
                    # `sleep` is C code: the work may return from it before the interrupt is raised.
                    threading.Thread(target=interruptible.interrupt, args=(ticket,)).start()
                    time.sleep(0.0005)
            except KeyboardInterrupt:
                assert interruptible.was_interrupted(ticket)
            for _ in range(1000):
                pass

    assert in_thread(work) == []


@pytest.mark.parametrize("blocks", [True, False])
def test_work_that_blocks_or_handles_the_signal_is_not_killed_by_it(interruptible: Interruptible, blocks: bool) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [INTERRUPT_SIGNAL] if blocks else [])
    try:
        with interruptible.running() as ticket:
            if not blocks:
                signal.signal(INTERRUPT_SIGNAL, signal.SIG_DFL)
            interruptible.interrupt(ticket)
            spin_a_little()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    spin_a_little()


def test_an_interrupt_for_ended_work_does_not_disturb_the_outer_work(interruptible: Interruptible) -> None:
    with interruptible.running():
        with interruptible.running() as inner:
            pass
        interruptible.interrupt(inner)
        spin_a_little()
        assert not interruptible.runs(inner)


def test_no_interrupt_is_raised_in_suspended_work(interruptible: Interruptible) -> None:
    with interruptible.running() as outer:
        with interruptible.suspended():
            interruptible.interrupt(outer)
            spin_a_little()
            interrupted(interruptible)
        assert interruptible.runs(outer)


def test_threads_do_not_interrupt_each_other(interruptible: Interruptible) -> None:
    with interruptible.running() as mine:
        tickets = []

        def work() -> None:
            with interruptible.running() as ticket:
                tickets.append(ticket)
                threading.Thread(target=interruptible.interrupt, args=(ticket,)).start()
                spin()

        (raised,) = in_thread(work)
        assert isinstance(raised, KeyboardInterrupt)
        assert tickets != [mine]


def call_when(event: threading.Event, call: Callable[[], None]) -> None:
    def wait() -> None:
        event.wait()
        call()

    threading.Thread(target=wait).start()


@pytest.mark.parametrize("run", [lambda work: work(), in_thread], ids=["main thread", "another thread"])
def test_no_interrupt_leaves_a_lock_of_ours_held(
    run: Callable[[Callable[[], None]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.001)
    interruptible = Interruptible(lambda seconds, call: threading.Timer(seconds, call).start())
    inbox, outgoing = Inbox(), Outgoing(lambda: None, lambda: None)
    locks: list[Any] = [inbox._changed, outgoing._lock]
    interrupts: list[bool] = []

    def work() -> None:
        for _ in range(50):
            with suppress(KeyboardInterrupt), interruptible.running() as ticket:
                begun = threading.Event()
                call_when(begun, partial(interruptible.interrupt, ticket))
                begun.set()
                while True:
                    inbox.settled()
                    outgoing.put_report()
                    sum(range(1000))
            interrupts.append(any(lock._is_owned() for lock in locks))

    run(work)
    assert interrupts == [False] * 50


def test_our_modules_that_call_the_program_have_no_lock() -> None:
    package = Path(stacks.__file__).parents[1]
    for module_name in LOCKLESS:
        path = package.joinpath(*module_name.split(".")[1:])
        for source in [path.with_suffix(".py"), *path.glob("*.py")]:
            assert not source.exists() or not re.search(
                r"\b(R?Lock|Condition|Semaphore)\(|with \w*_lock", source.read_text()
            )


def spin_a_little() -> None:
    """Give a pending signal many instructions to be handled at."""
    for _ in range(10_000):
        pass
