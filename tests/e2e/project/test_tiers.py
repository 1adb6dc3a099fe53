"""The folder of a test decides what it may do, and a skip may be a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.time_unit import seconds

ROOT = Path(__file__).parents[3]

STARTS = "import subprocess\ndef test_it(): subprocess.run(['true'])\n"
DIALS = "import socket\ndef test_it():\n    with socket.socket() as one:\n        one.connect_ex(('192.0.2.1', 9))\n"
ASKS_FOR_PROCESSES = "def test_it(processes): pass\n"
SKIPS = "import pytest\ndef test_it(): pytest.skip('not here')\n"
BURNS = (
    "import time\ndef test_it():\n    until = time.process_time() + 6\n    while time.process_time() < until: pass\n"
)
PASSES = "def test_it(): pass\n"


def run_inner(folder: Path, *words: str, **environ: str) -> str:
    """Run pytest with this project's conftest in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "-ra"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, env=variables, cwd=folder, timeout=seconds(60)
    ).stdout


def outcome(report: str) -> dict[str, int]:
    """Return how many passed, failed and so on."""
    return {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|xfailed|error)", report)}


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
    file = tmp_path / tier / "test_one.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert outcome(run_inner(tmp_path, str(file), DBG_TEST_FOLDER=str(tmp_path))) == expected


KINDS_OF_SKIPS = {
    "inside": "import os, pytest\ndef test_inside():\n    print(sorted(os.environ))\n    pytest.skip('not here')\n",
    "module": "import pytest\npytest.importorskip('no_such_module_here')\n",
    "marked": "import pytest\n@pytest.mark.skipif(True, reason='no torch')\ndef test_it(): pass\n",
    "expected": "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n",
}


def test_a_skip_is_a_failure_with_no_skips(tmp_path: Path) -> None:
    for name, text in KINDS_OF_SKIPS.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    assert outcome(run_inner(tmp_path, ".")) == {"skipped": 3, "xfailed": 1}
    report = run_inner(tmp_path, "--no-skips", "--continue-on-collection-errors", ".", DBG_BROKER="elsewhere:1")
    # The expected failure is no skip.
    assert outcome(report) == {"failed": 1, "xfailed": 1, "error": 2}
    assert all(reason in report for reason in ("not here", "no_such_module_here", "no torch"))
    assert "DBG_BROKER" not in report
