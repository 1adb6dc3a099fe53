"""Where the kernel puts core files, by its pattern."""

from __future__ import annotations

import os

from dbg_agent.guard.cause import likely_core
from dbg_agent.guard.watched import facts_of


def test_nobody_promises_a_core_of_a_process_that_is_gone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert facts_of(child) == {}
    core = likely_core(facts_of(child), child, 11)
    assert core == "" or core.startswith("|")
