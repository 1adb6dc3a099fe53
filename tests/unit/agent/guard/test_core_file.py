"""Where the kernel puts core files, by its pattern."""

from __future__ import annotations

import os

import pytest

from dbg_agent.guard.cause import expand, likely_core
from dbg_agent.guard.watched import facts_of

FACTS = {"%": "%", "p": "4711", "e": "python", "h": "gpu013", "s": "11"}


@pytest.mark.parametrize(
    ("pattern", "with_pid", "name"),
    [
        ("core", False, "core"),
        ("core", True, "core.4711"),
        ("/cores/%h/core.%e.%p", True, "/cores/gpu013/core.python.4711"),
        ("core-%s%%%p", False, "core-11%4711"),
        ("core%Z%", False, "core%"),
    ],
)
def test_a_pattern_becomes_the_name_that_the_kernel_makes_of_it(pattern: str, with_pid: bool, name: str) -> None:
    assert expand(pattern, FACTS, with_pid=with_pid) == name


def test_a_core_lies_in_the_folder_of_its_process_unless_that_may_write_none() -> None:
    facts = facts_of(os.getpid())
    assert facts["cwd"] == os.getcwd()  # noqa: PTH109 - as the kernel names it
    unlimited = {**facts, "limits": "Max core file size        unlimited            unlimited            bytes"}
    core = likely_core(unlimited, 4711, 11)
    assert core.startswith(("|", "/"))
    none = {**facts, "limits": "Max core file size        0                    unlimited            bytes"}
    core = likely_core(none, 4711, 11)
    assert core == "" or core.startswith("|")
