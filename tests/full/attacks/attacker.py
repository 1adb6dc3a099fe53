"""One attack, in a process of its own: ``python -m tests.full.attacks.attacker MODULE:FUNCTION ADDRESS OPTIONS``.

The function gets a :class:`Target`, a function to call once the attack is under way, and its options. It goes on until
it is killed. The process leaves the processor to others, as an attacker on another host would.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.full.attacks.target import SAME_ADDRESS, Target
from tests.support.broker import RunningBroker
from tests.support.processes import Child, Processes

UNDER_WAY = "the attack is under way"

ROOT = Path(__file__).parents[3]

Begun = Callable[[], None]
"""Report that the attack is under way; a second call does nothing."""

Attack = Callable[..., None]


@contextlib.contextmanager
def attack(
    processes: Processes, broker: RunningBroker, attacker: Attack, *, address: str = SAME_ADDRESS, **options: object
) -> Iterator[Child]:
    """Run an attack of module-level function ``attacker`` from ``address`` in a process; it is killed in the end."""
    name = f"{attacker.__module__}:{attacker.__name__}"
    command = [sys.executable, "-m", "tests.full.attacks.attacker", name, address, json.dumps(options)]
    env = {**broker.environment}
    child = processes.start("attacker", command, env=env, cwd=ROOT)
    child.wait_for_output(UNDER_WAY)
    try:
        yield child
        assert child.exit_status is None, f"the attack has ended by itself\n{child.tail()}"
    finally:
        child.kill()
        child.wait()


def main() -> None:
    """Run the attack that the command line names."""
    os.nice(19)
    name, address, options = sys.argv[1:]
    module, _, function = name.partition(":")
    reported: list[bool] = []

    def begun() -> None:
        if not reported:
            reported.append(True)
            print(UNDER_WAY, flush=True)  # noqa: T201 - what the test waits for

    getattr(importlib.import_module(module), function)(Target.from_environment(address), begun, **json.loads(options))


if __name__ == "__main__":
    main()
