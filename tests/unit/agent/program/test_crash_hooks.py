"""Which exceptions are crashes; the hooks for them are those of before once they are given back."""

from __future__ import annotations

import sys
import threading
import traceback

import pytest

from dbg_agent.program.crash_hooks import CrashHooks, keep


@pytest.mark.parametrize(("error", "lease", "asked"), [(ValueError(), 60.0, 1), (ValueError(), 0.0, 0)])
def test_a_crash_is_kept_unless_the_user_disables_it(error: BaseException, lease: float, asked: int) -> None:
    calls: list[None] = []
    keep(lambda: calls.append(None), error, None, lease)
    assert len(calls) == asked


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_intended_exit_is_no_crash(error: BaseException) -> None:
    keep(lambda: pytest.fail("it was kept"), error, None, 60.0)


def test_our_own_fault_is_not_raised_from_a_crash() -> None:
    keep(lambda: 1 // 0, ValueError(), None, 60.0)  # type: ignore[arg-type,return-value]


def test_the_former_hooks_are_restored() -> None:
    def hooks() -> tuple[object, ...]:
        return sys.excepthook, threading.excepthook, traceback.print_exc

    before = hooks()
    crash_hooks = CrashHooks(lambda _error: None, lambda: None)
    crash_hooks.install(lambda: None, 60.0)
    assert all(now != former for now, former in zip(hooks(), before, strict=True))
    crash_hooks.restore()
    assert hooks() == before


def test_the_last_call_of_install_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _args: None)
    asked: list[str] = []
    crash_hooks = CrashHooks(lambda _error: None, lambda: None)
    for name in ("first", "second"):
        crash_hooks.install(lambda name=name: asked.append(name), 60.0)  # type: ignore[misc]
    try:
        threading.excepthook(threading.ExceptHookArgs((ValueError, ValueError(), None, None)))
    finally:
        crash_hooks.restore()
    assert asked == ["second"]
