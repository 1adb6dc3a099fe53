"""What ``/proc`` tells of the ancestors of a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_agent.launch.this_process import MAX_ANCESTORS, ancestors


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_ancestors_of_this_process() -> None:
    chain = ancestors(os.getpid())

    assert chain[0] == os.getppid()
    assert len(chain) <= MAX_ANCESTORS
    assert chain == (os.getppid(), *ancestors(os.getppid()))[:MAX_ANCESTORS]


def test_ancestors_of_no_process() -> None:
    assert ancestors(2**31 - 1) == ()
