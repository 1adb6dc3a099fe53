"""A fault of a debugger between two lines of the program."""

from __future__ import annotations

import bdb
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dbg_agent.debuggers.engine import Engine


def test_the_program_continues_after_a_fault_in_a_traced_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("ours")

    warned, released = list[str](), list[bool]()
    engine: Any = Engine.__new__(Engine)
    engine._workplace = SimpleNamespace(broker=SimpleNamespace(warn=warned.append))
    monkeypatch.setattr(bdb.Bdb, "trace_dispatch", fails)
    monkeypatch.setattr(engine, "release", lambda: released.append(True))
    assert engine.trace_dispatch(sys._getframe(), "line", None) is None
    assert (len(warned), released) == (1, [True])
