"""The folder of a test decides what it may do, the developer's set-up reaches no test, failed tests keep their logs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.environment import clean_environment
from tests.support.processes import Processes
from tests.support.signals import KEYBOARD
from tests.support.time_unit import seconds

ROOT = Path(__file__).parents[3]

STARTS = "import subprocess\ndef test_it(): subprocess.run(['true'])\n"
DIALS = "import socket\ndef test_it():\n    with socket.socket() as one:\n        one.connect_ex(('192.0.2.1', 9))\n"
ASKS_FOR_PROCESSES = "def test_it(processes): pass\n"
SKIPS = "import pytest\ndef test_it(): pytest.skip('not here')\n"
BURNS = (
    "import time\ndef test_it():\n    until = time.process_time() + 1.2\n    while time.process_time() < until: pass\n"
)
PASSES = "def test_it(): pass\n"


def run_inner(folder: Path, *words: str, wrap: tuple[str, ...] = (), **environ: str) -> str:
    """Run pytest with this project's conftest in a process of its own, and return what it prints."""
    command = [*wrap, sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "-ra"]
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


def test_ranks_of_a_test_differ_as_real_ranks_do(processes: Processes, tmp_path: Path) -> None:
    """Processes that a test starts have addresses and a hash seed of their own."""
    script = tmp_path / "rank.py"
    script.write_text("print(id(object()), hash('a'))\n")
    started = [processes.start(f"rank{number}", [sys.executable, str(script)]) for number in range(4)]
    assert [child.wait() for child in started] == [0] * 4
    addresses, hashes = zip(*(child.text().split() for child in started), strict=True)
    assert len(set(addresses)) > 1
    assert len(set(hashes)) > 1


def test_what_could_decide_a_test_is_dropped_and_the_rest_kept() -> None:
    dropped = {
        "DBG_BROKER": "elsewhere:1",
        "SLURM_PROCID": "3",
        "https_proxy": "http://proxy",
        "RANK": "2",
        "COLUMNS": "9",
    }
    kept = {"PATH": "/bin", "DBG_TEST_UNIT": "2", "SSL_CERT_FILE": "/certificates"}
    clean = clean_environment(dropped | kept | {"TERM": "dumb", "HOME": "/theirs"}, Path("/own"))
    assert (clean["HOME"], clean["DBG_HOME"], clean["TERM"]) == ("/own", "/own/dbg", "xterm-256color")
    assert {name: clean[name] for name in kept} == kept
    assert dropped.keys().isdisjoint(clean)
    # This process has such an environment.
    assert os.environ["DBG_HOME"] == f"{os.environ['HOME']}/dbg"


KINDS_OF_SKIPS = {
    "inside": "import os, pytest\ndef test_inside():\n    print(sorted(os.environ))\n    pytest.skip('not here')\n",
    "module": "import pytest\npytest.importorskip('no_such_module_here')\n",
    "marked": "import pytest\n@pytest.mark.skipif(True, reason='no torch')\ndef test_it(): pass\n",
    "expected": "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n",
}


def test_a_skip_is_a_failure_where_nothing_may_be_missing(tmp_path: Path) -> None:
    for name, text in KINDS_OF_SKIPS.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    assert outcome(run_inner(tmp_path, ".")) == {"skipped": 3, "xfailed": 1}
    report = run_inner(tmp_path, "--no-skips", "--continue-on-collection-errors", ".", DBG_BROKER="elsewhere:1")
    # The expected failure is no skip.
    assert outcome(report) == {"failed": 1, "xfailed": 1, "error": 2}
    assert all(reason in report for reason in ("not here", "no_such_module_here", "no torch"))
    assert "DBG_BROKER" not in report


def test_logs_are_shown_and_kept_for_a_failed_test_and_removed_for_a_passed_one(tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text("""
def test_good(processes): processes.start('good', ['echo', 'fine']).wait()
def test_bad(processes):
    processes.start('bad', ['echo', 'telling detail']).wait()
    assert False
""")
    logs = tmp_path / "logs"
    report = run_inner(tmp_path, f"--logs={logs}", ".")
    assert "log of bad" in report
    assert "telling detail" in report
    assert [log.read_text() for log in logs.glob("*/*.log")] == ["telling detail\n"]


INNER = """\
import os, signal, subprocess, sys
from tests.support.signals import KEYBOARD

def test_what_a_started_program_finds():
    program = f"import signal; print([signal.getsignal(n) is not signal.SIG_IGN for n in {[int(n) for n in KEYBOARD]}])"
    started = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert started.stdout == "[True, True, True]\\n"
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for number in KEYBOARD:
            signal.raise_signal(number)
"""
"""A test that fails where a program inherits ignored signals.

Outside of a worker, it also ends if its own process reacts to these signals. A worker is a started program itself.
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_programs_have_signals_that_the_tests_were_started_without(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_inner.py").write_text(INNER)
    ignored = " ".join(number.name.removeprefix("SIG") for number in KEYBOARD)
    # As a script's `&` and `nohup` do it.
    wrap = ("sh", "-c", f"trap '' {ignored}; exec \"$@\"", "sh")
    assert outcome(run_inner(tmp_path, *options, ".", wrap=wrap)) == {"passed": 1}
