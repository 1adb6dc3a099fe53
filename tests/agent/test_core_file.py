"""Where the kernel puts core files, by its pattern."""

from __future__ import annotations

import os

import pytest

from dbg_agent.core_file import expand, likely_core

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


def test_nobody_promises_a_core_of_a_process_that_is_gone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    core = likely_core(child, 11)
    assert core == "" or core.startswith("|")
