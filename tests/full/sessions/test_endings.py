"""At every end of a session the terminal says how it ended, is given back, and tells scripts by its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbg_client.core.waiting import WAITING
from tests.conftest import OpenTerminal
from tests.smoke.test_endings import (
    ended,
    start_running,
)
from tests.support.own_settings import with_own_settings
from tests.support.processes import Processes
from tests.support.ranks import attach_command

pytestmark = pytest.mark.usefixtures("broker")


def test_130_interrupted_while_waiting(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    start_running(processes, home)
    terminal = open_terminal(with_own_settings(home, attach_command("wait", "0")))
    terminal.wait_for(WAITING.format(target="0"))
    terminal.send("\x03")
    status, _ = ended(terminal, home)
    assert status == 130
