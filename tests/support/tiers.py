"""The tiers of the tests: the folder of a test says what it may use, and what it may cost.

``unit`` is one process and loopback; ``smoke`` and ``e2e`` start the product; ``full`` may do everything.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(os.environ.get("DBG_TEST_FOLDER") or Path(__file__).parents[1])
"""The folder with the tiers; a test of these rules names another one."""

STARTING_FIXTURES = frozenset({"processes", "open_terminal", "slurm", "two_hosts", "chromium"})
"""Fixtures whose tests start processes."""

STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"})
"""Events of the interpreter at which a process starts."""


@dataclass(frozen=True)
class Tier:
    """One tier: whether its tests may start processes and skip, and the processor time that one test may take."""

    name: str
    starts_processes: bool = True
    may_skip: bool = True
    cpu_seconds: float | None = None
    """Of the test's own process and of those that it has waited for; None: without limit."""


TIERS = {
    tier.name: tier
    for tier in (
        Tier("unit", starts_processes=False, may_skip=False, cpu_seconds=2.0),
        Tier("smoke", may_skip=False, cpu_seconds=10.0),
        Tier("e2e", cpu_seconds=15.0),
        Tier("full"),
    )
}


def tier_of(path: Path) -> Tier | None:
    return TIERS.get(path.relative_to(TESTS).parts[0]) if path.is_relative_to(TESTS) else None


def out_of_place(nodes: Iterable[pytest.Item | pytest.Collector]) -> str | None:
    """Return why a unit test among these can't be one: it uses a fixture that starts processes; None if none does."""
    for node in nodes:
        tier = tier_of(node.path)
        used = STARTING_FIXTURES.intersection(getattr(node, "fixturenames", ()))
        if tier is not None and not tier.starts_processes and used:
            return (
                f"{node.nodeid} is a unit test and uses {', '.join(sorted(used))}, which starts processes: "
                "move it to tests/smoke, tests/e2e or tests/full"
            )
    return None


class Watch:
    """An audit hook that notes a started process and a foreign address; a hook can't be removed, so there is one."""

    def __init__(self) -> None:
        self.noted: list[str] | None = None
        """Facts about the running unit test; None while none runs."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[object, ...]) -> None:
        if self.noted is None:
            return
        if event in STARTS:
            self.noted.append(f"starts a process ({event})")
        elif event == "socket.connect" and isinstance(args[1], tuple) and not is_loopback(str(args[1][0])):
            self.noted.append(f"dials {args[1][0]}, which is not loopback")


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address in ("::1", "localhost")


def cpu_seconds() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def slowness() -> float:
    """Return how many times slower this machine is now than the one of the budgets, which needs 25 ms for the sum."""
    before = time.process_time()
    sum(number & 3 for number in range(500_000))
    return max(1.0, (time.process_time() - before) / 0.025)


def over_budget(tier: Tier, used: float) -> str | None:
    """Return a hint if a test has used more processor time than its tier allows."""
    if tier.cpu_seconds is None or used <= tier.cpu_seconds or used <= tier.cpu_seconds * slowness():
        return None
    return (
        f"took {used:.1f} s of processor time; a test of tests/{tier.name} may take {tier.cpu_seconds:.0f} s: "
        "make it cheaper, or move it to a slower tier"
    )
