"""The folder of a test decides what it may do: pytest fails a test that is in the wrong folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import Processes

ROOT = Path(__file__).parents[3]
STARTS = "import subprocess\ndef test_it(): subprocess.run(['true'])\n"
DIALS = "import socket\ndef test_it():\n    with socket.socket() as one:\n        one.connect_ex(('192.0.2.1', 9))\n"
ASKS_FOR_PROCESSES = "def test_it(processes): pass\n"
SKIPS = "import pytest\ndef test_it(): pytest.skip('not here')\n"
BURNS = (
    "import time\ndef test_it():\n    until = time.process_time() + 1.2\n    while time.process_time() < until: pass\n"
)
PASSES = "def test_it(): pass\n"


def outcome(folder: Path, tier: str, text: str, *options: str) -> dict[str, int]:
    """Run one test in the folder of a tier, and return how many passed, failed and so on."""
    file = folder / tier / "test_one.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", *options]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "DBG_TEST_FOLDER": str(folder)}
    done = subprocess.run(
        [*command, str(file)], capture_output=True, text=True, check=False, env=environ, cwd=folder, timeout=60
    )
    return {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)}


@pytest.mark.parametrize(
    ("tier", "text", "expected"),
    [
        ("unit", PASSES, {"passed": 1}),
        ("unit", STARTS, {"failed": 1}),
        ("unit", DIALS, {"failed": 1}),
        ("unit", ASKS_FOR_PROCESSES, {"error": 1}),
        ("unit", SKIPS, {"failed": 1}),
        ("unit", BURNS, {"passed": 1, "error": 1}),
        ("smoke", STARTS, {"passed": 1}),
        ("smoke", SKIPS, {"failed": 1}),
        ("e2e", SKIPS, {"skipped": 1}),
        ("full", STARTS, {"passed": 1}),
    ],
)
def test_a_test_fails_in_the_wrong_folder(tmp_path: Path, tier: str, text: str, expected: dict[str, int]) -> None:
    assert outcome(tmp_path, tier, text) == expected


def test_no_tier_may_skip_where_nothing_may_be_missing(tmp_path: Path) -> None:
    assert outcome(tmp_path, "e2e", SKIPS, "--no-skips") == {"failed": 1}


def test_ranks_of_a_test_differ_as_real_ranks_do(processes: Processes, tmp_path: Path) -> None:
    """Processes that a test starts have addresses and a hash seed of their own."""
    script = tmp_path / "rank.py"
    script.write_text("print(id(object()), hash('a'))\n")
    started = [processes.start(f"rank{number}", [sys.executable, str(script)]) for number in range(4)]
    assert [child.wait() for child in started] == [0] * 4
    addresses, hashes = zip(*(child.text().split() for child in started), strict=True)
    assert len(set(addresses)) > 1
    assert len(set(hashes)) > 1
