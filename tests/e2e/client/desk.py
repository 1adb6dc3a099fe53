"""Commands of ``dbg-attach`` that run against a fake broker, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from tests.support.processes import run_command
from tests.unit.client.fake_broker import FakeBroker


def command(*words: str) -> list[str]:
    """Return the command with these words."""
    return [sys.executable, "-m", "dbg_client", *words]


class Desk:
    """A place without a terminal, at which commands find a broker."""

    def __init__(self, broker: FakeBroker, environ: dict[str, str]) -> None:
        self.environ = {**environ, **broker.environment}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command until it ends."""
        return run_command(command(*words), self.environ, 60)
