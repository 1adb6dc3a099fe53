"""The developer's set-up reaches no test, ``--no-skips`` makes a skip a failure, and failed tests keep their logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.environment import clean_environment

ROOT = Path(__file__).parents[3]


def test_what_could_decide_a_test_is_dropped_and_the_rest_kept() -> None:
    theirs = {
        "DBG_BROKER": "elsewhere:1",
        "DBG_TOKEN": "secret",
        "SLURM_PROCID": "3",
        "https_proxy": "http://proxy",
        "HTTP_PROXY": "http://proxy",
        "RANK": "2",
        "COLUMNS": "10",
        "TERM": "dumb",
        "HOME": "/theirs",
        "XDG_STATE_HOME": "/theirs/state",
    }
    kept = {"PATH": "/bin", "DBG_TEST_UNIT": "2", "SSL_CERT_FILE": "/certificates"}
    clean = clean_environment(theirs | kept, Path("/own"))
    assert clean["HOME"] == "/own"
    assert clean["DBG_HOME"] == "/own/dbg"
    assert clean["TERM"] == "xterm-256color"
    assert {name: clean[name] for name in kept} == kept
    assert not {"DBG_BROKER", "DBG_TOKEN", "SLURM_PROCID", "https_proxy", "HTTP_PROXY", "RANK", "COLUMNS"} & set(clean)


def test_this_process_has_such_an_environment() -> None:
    assert "dbg-test-home-" in os.environ["HOME"]
    assert os.environ["DBG_HOME"] == f"{os.environ['HOME']}/dbg"


def run_inner(folder: Path, *options: str, **tests: str) -> str:
    """Run these test modules, by their names, in a pytest of its own, with this project's conftest."""
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-ra", *options]
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "DBG_BROKER": "elsewhere:1"}
    return subprocess.run(
        [*command, str(folder)], capture_output=True, text=True, check=False, env=environ, cwd=folder
    ).stdout


SKIPS = {
    "inside": """
import os, sys
def test_inside():
    print("inside", os.environ["HOME"], os.environ["DBG_HOME"], sorted(os.environ))
    import pytest
    pytest.skip("not here")
""",
    "module": "import pytest\npytest.importorskip('no_such_module_here')\n",
    "marked": "import pytest\n@pytest.mark.skipif(True, reason='no torch')\ndef test_it(): pass\n",
    "expected": "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n",
}


def test_a_skip_is_a_skip_where_something_may_be_missing(tmp_path: Path) -> None:
    assert "3 skipped, 1 xfailed" in run_inner(tmp_path, **SKIPS)


def test_a_skip_is_a_failure_where_nothing_may_be_missing(tmp_path: Path) -> None:
    report = run_inner(tmp_path, "--no-skips", "--continue-on-collection-errors", **SKIPS)
    # The expected failure is no skip.
    assert "1 failed, 1 xfailed, 2 errors" in report
    assert "FAILED test_inside.py::test_inside" in report
    assert "ERROR test_module.py" in report
    assert "no_such_module_here" in report
    assert "ERROR test_marked.py::test_it" in report
    assert "no torch" in report
    assert "inside" in report
    assert "DBG_BROKER" not in report


def test_logs_are_shown_and_kept_for_a_failed_test_and_removed_for_a_passed_one(tmp_path: Path) -> None:
    both = """
def test_good(processes): processes.start('good', ['echo', 'fine']).wait()
def test_bad(processes):
    processes.start('bad', ['echo', 'telling detail']).wait()
    assert False
"""
    logs = tmp_path / "logs"
    report = run_inner(tmp_path, f"--logs={logs}", both=both)
    assert "log of bad" in report
    assert "telling detail" in report
    assert [log.read_text() for log in logs.glob("*/*.log")] == ["telling detail\n"]
