"""Signals that end a wait."""

from __future__ import annotations

import subprocess

from dbg_broker.run.terminal import Wakeup
from tests.unit.broker.run.test_wakeup import wakes


def test_the_end_of_a_child_wakes() -> None:
    with Wakeup({}) as wakeup:
        wakes(wakeup)
        with subprocess.Popen(["true"]) as child:
            assert wakes(wakeup)
        assert child.returncode == 0
