"""Where our packages are, and whether another interpreter has them."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from dbg_client.adopt.one import folders_of_ours, has_package
from dbg_client.adopt.process import read_process


def test_the_folders_hold_what_a_rank_imports() -> None:
    folders = folders_of_ours()
    for name in ("dbg_agent", "dbg_wire", "dbg_dial", "websockets", "pudb"):
        assert any(os.path.exists(os.path.join(folder, name)) for folder in folders), name  # noqa: PTH110, PTH118
    assert len(set(folders)) == len(folders)


def test_an_interpreter_is_asked_for_our_package() -> None:
    seen = read_process(os.getpid())
    assert seen is not None
    assert has_package(replace(seen, argv=(sys.executable,), environ={}))
    base = getattr(sys, "_base_executable", sys.executable)
    if base != sys.executable:
        assert not has_package(replace(seen, argv=(base,), environ={}))
