"""``python -m tests.full.soak [--minutes M] [--ranks N]``: live for so long, print what has grown; status 1 if it has.

A round has steps, questions, an attach, a break-in, a crash, two kills, a restart and a revoked token; the tokens are
exchanged twice. Rounds come every few seconds, so that a machine that does other things too stays usable.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.full.soak.growth import growth, table
from tests.full.soak.life import Life
from tests.support.environment import clean_environment, is_foreign
from tests.support.processes import Processes

LOGS = Path(__file__).parents[3] / "logs/soak"

ROUND_SECONDS = 10.0
"""Seconds between the beginnings of two rounds, which take two to five."""

ROTATIONS = (0.2, 0.3)
"""When the tokens are exchanged, as shares of the time: before the samples count."""


def main(words: Sequence[str]) -> int:
    """Soak, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.full.soak")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    parser.add_argument("--ranks", type=int, default=200, help="light ranks, three of them real (default: 200)")
    asked = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="dbg-soak-"))
    for name in [name for name in os.environ if is_foreign(name)]:
        del os.environ[name]
    os.environ.update(clean_environment(os.environ, folder), DBG_HOME=str(folder / "dbg"))
    processes = Processes(LOGS)
    try:
        return soak(Life(processes, folder, asked.ranks), asked.minutes * 60)
    finally:
        processes.end_all()
        shutil.rmtree(folder, ignore_errors=True)


def soak(life: Life, seconds: float) -> int:
    """Go through rounds for so long; return the exit status."""
    began = time.monotonic()
    rotations = [began + seconds * share for share in ROTATIONS]
    samples: list[Mapping[str, Mapping[str, int]]] = []
    while (now := time.monotonic()) < began + seconds:
        life.round(len(samples))
        if rotations and now >= rotations[0]:
            rotations.pop(0)
            life.rotate()
        samples.append(life.sample())
        # The pace is what is wanted here, not an occurrence.
        time.sleep(max(0.0, now + ROUND_SECONDS - time.monotonic()))
    life.end()
    grown = growth(samples)
    print(f"{len(samples)} rounds in {time.monotonic() - began:.0f} s\n{table(grown)}")  # noqa: T201 - a command
    return 1 if any(one.is_leak for one in grown) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
