"""A broker, and an echo through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.attacks.attacker import attack
from tests.attacks.echo import Echo
from tests.attacks.figures import Figures
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes

StartAttack = Callable[..., AbstractContextManager[Child]]
"""Run an attack on this test's broker: a function of a module, ``address=`` and the function's options."""

Felt = Callable[[str, Figures, Figures], None]
"""Print and keep what was felt during an attack (its name, quiet figures, figures of the attack), and check it."""


@pytest.fixture
def broker(processes: Processes, home: Path) -> RunningBroker:
    """A broker with TLS in a process of its own."""
    return running_broker(processes, home)


@pytest.fixture
def echo(broker: RunningBroker) -> Iterator[Echo]:
    """A driver and a rank that echoes."""
    one = Echo(broker)
    yield one
    one.close()


@pytest.fixture
def start_attack(processes: Processes, broker: RunningBroker) -> StartAttack:
    """A function that runs an attack on this test's broker."""
    return partial(attack, processes, broker)


@pytest.fixture
def felt(request: pytest.FixtureRequest) -> Felt:
    """A function that prints, keeps and checks figures."""
    folder: Path = request.config.getoption("logs")

    def tell(name: str, quiet: Figures, attacked: Figures) -> None:
        print(f"\n{name}\n  quiet:    {quiet}\n  attacked: {attacked}")  # noqa: T201 - the figures are what the test is for
        attacked.keep(folder, name, quiet)
        attacked.check(quiet)

    return tell
