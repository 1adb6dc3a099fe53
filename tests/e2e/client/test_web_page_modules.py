"""The modules of the page in node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.time_unit import seconds

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests/unit/client/web/page"
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no node here")


@pytest.mark.parametrize("name", sorted(path.name for path in TESTS.glob("*.test.js")))
def test_the_tests_of_a_module_pass(name: str) -> None:
    ran = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(TESTS / name)],
        capture_output=True,
        text=True,
        timeout=seconds(60),
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# pass 0\n" not in ran.stdout
    assert "# fail 0\n" in ran.stdout
