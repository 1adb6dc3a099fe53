"""In which system calls a thread may be borrowed."""

from __future__ import annotations

import os

from dbg_client.adopt.system_calls import WAITING, waits_safely


def test_waiting_is_safe_and_taking_memory_is_not() -> None:
    futex, mmap, brk = 202, 9, 12
    assert waits_safely("x86_64", futex)
    assert not waits_safely("x86_64", mmap)
    assert not waits_safely("x86_64", brk)
    assert not waits_safely("x86_64", None)


def test_on_other_machines_nothing_is_safe() -> None:
    assert not waits_safely("m68k", 202)
    assert os.uname().machine in WAITING
