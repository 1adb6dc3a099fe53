"""The figures themselves: nothing is felt without an attack, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.full.attacks.attacker import Begun
from tests.full.attacks.conftest import MEASURED_SECONDS, Attacked, under_attack
from tests.full.attacks.target import Target


def nothing(target: Target, begun: Begun) -> None:
    """Do nothing."""
    begun()
    with target.plain() as connection:
        connection.recv(1)


def test_an_idle_attack_delays_no_key(attacked: Attacked) -> None:
    with attacked.by(nothing):
        felt = attacked.feel()
    attacked.report("nothing", felt)
    felt.check()


BUSY = """
import runpy, time
from dbg_broker.net.loop import MeasuredSelector
select = MeasuredSelector.select
def compute_and_select(self, timeout=None):
    end = time.thread_time() + 0.06
    while time.thread_time() < end:
        pass
    return select(self, timeout)
MeasuredSelector.select = compute_and_select
runpy.run_module("dbg_broker", run_name="__main__", alter_sys=True)
"""


def busy(command: Sequence[str]) -> list[str]:
    """Return a broker's command such that each turn of its loop takes 60 ms of processor time more."""
    python, _, _, *arguments = command
    return [python, "-c", BUSY, *arguments]


def test_a_slow_broker_fails_the_check(tmp_path: Path) -> None:
    with under_attack(tmp_path, wrap=busy) as attacked:
        felt = attacked.echo.measure(MEASURED_SECONDS)
    with pytest.raises(AssertionError, match="in the broker at most 100 ms"):
        felt.check()
