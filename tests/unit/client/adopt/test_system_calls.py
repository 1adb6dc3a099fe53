"""In which system calls a thread may be borrowed."""

from __future__ import annotations

import os

from dbg_client.adopt.process import WAITING, waits_safely
from dbg_wire.tables.system_calls import call_names


def test_waiting_is_safe_and_taking_memory_is_not() -> None:
    futex, mmap, brk = 202, 9, 12
    assert waits_safely("x86_64", futex)
    assert not waits_safely("x86_64", mmap)
    assert not waits_safely("x86_64", brk)
    assert not waits_safely("x86_64", None)


def test_on_other_machines_nothing_is_safe() -> None:
    assert not waits_safely("m68k", 202)
    assert waits_safely(os.uname().machine, {name: n for n, name in call_names(os.uname().machine).items()}["futex"])


def test_each_call_has_a_number_here() -> None:
    assert set(call_names("x86_64").values()) >= WAITING
