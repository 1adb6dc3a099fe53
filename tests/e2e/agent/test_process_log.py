"""DBG_LOG has a rank log to a file, and no failure of that file disturbs the training."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_agent.process.log import open_log
from tests.support.time_unit import seconds
from tests.unit.agent.process.test_log import lines


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Leave this process without a log."""
    yield
    open_log({}, "?")


def test_a_descriptor_that_the_program_has_taken_is_left_alone(tmp_path: Path) -> None:
    program = """
import os, sys
from dbg_agent.process.log import Logger, open_log
open_log({"DBG_LOG": sys.argv[1]}, "gpu013:5")
log = Logger("dbg_agent.test")
log.info("first")
os.closerange(3, 100)
taken = {os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600) for _ in range(90)}
log.info("second")
log.info("third")
"""
    paths = [str(tmp_path / name) for name in ("log", "own")]
    subprocess.run([sys.executable, "-c", program, *paths], check=True, timeout=seconds(20))
    assert [event for _, _, event in lines(tmp_path / "log")] == ["first"]
    assert (tmp_path / "own").read_text() == ""


def test_ranks_of_one_host_share_a_file(tmp_path: Path) -> None:
    program = """
import sys
from dbg_agent.process.log import Logger, open_log
open_log({"DBG_LOG": sys.argv[1]}, "gpu013:5")
for number in range(200): Logger("dbg_agent.test").debug("%d %s", number, "x" * 200)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    ranks = [subprocess.Popen(command) for _ in range(3)]
    assert [rank.wait(seconds(20)) for rank in ranks] == [0, 0, 0]
    assert len(lines(tmp_path / "log")) == 600
