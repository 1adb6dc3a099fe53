"""Brokers under attack, each with an echo through it.

Attacks that leave nothing behind share one broker for a module: its start takes longer than an attack.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.full.attacks.attacker import Attack, attack
from tests.full.attacks.echo import Echo
from tests.full.attacks.figures import Figures
from tests.full.attacks.target import SAME_ADDRESS
from tests.support.broker import RunningBroker, Wrap, running_broker
from tests.support.processes import Child, Processes

MEASURED_SECONDS = 0.6
"""Seconds for which echoes are measured: dozens of keys, and hundreds of turns of a broker under attack."""

MEASURED = 3
"""How often an attack is measured at most."""


class Attacked:
    """A broker with TLS in a process of its own, and an echo through it."""

    def __init__(self, processes: Processes, broker: RunningBroker) -> None:
        self.broker = broker
        self.echo = Echo(broker)
        self._processes = processes

    def by(self, attacker: Attack, *, address: str = SAME_ADDRESS, **options: object) -> AbstractContextManager[Child]:
        """Run an attack: a function of a module, the address it comes from, and the function's options."""
        return attack(self._processes, self.broker, attacker, address=address, **options)

    def feel(self) -> Figures:
        """Measure during an attack, anew up to twice if keys waited, and return the figures of the last time.

        An attack goes on and is felt each time. A virtual machine counts the time that its host takes away as processor
        time, which is felt now and then.
        """
        for _ in range(MEASURED):
            felt = self.echo.measure(MEASURED_SECONDS)
            if felt.is_fine:
                break
        return felt

    def measure(self, name: str, attacker: Attack, **options: Any) -> None:
        """Run an attack from the address of the echo, and report and check what is felt meanwhile."""
        with self.by(attacker, **options):
            felt = self.feel()
        self.report(name, felt)
        felt.check()

    def report(self, name: str, felt: Figures, more: str = "") -> None:
        """Print what was felt during an attack, for the table in the documentation."""
        print(f"\n{name}\n  {felt}")  # noqa: T201 - the figures are what it is for
        if more:
            print(f"  {more}")  # noqa: T201


@contextlib.contextmanager
def under_attack(folder: Path, *arguments: str, wrap: Wrap = list) -> Iterator[Attacked]:
    """Run a broker with its home and logs in ``folder``."""
    home = folder / "dbg"
    home.mkdir(mode=0o700)
    processes = Processes(folder / "logs")
    try:
        attacked = Attacked(processes, running_broker(processes, home, *arguments, wrap=wrap))
        yield attacked
        attacked.echo.close()
    finally:
        processes.end_all()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A broker for all attacks of a module."""
    with under_attack(tmp_path_factory.mktemp("attacked")) as one:
        yield one
