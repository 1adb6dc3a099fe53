"""Tests that are started with signals ignored, as a script's ``&`` and ``nohup`` do it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.signals import KEYBOARD
from tests.support.time_unit import seconds

ROOT = Path(__file__).parents[3]

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
    inner = tmp_path / "test_inner.py"
    inner.write_text(INNER)
    ignored = " ".join(number.name.removeprefix("SIG") for number in KEYBOARD)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", str(ROOT), *options]
    result = subprocess.run(
        ["sh", "-c", f"trap '' {ignored}; exec \"$@\"", "sh", *command, "--logs", str(tmp_path / "logs"), str(inner)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(60),
    )
    assert result.returncode == 0, result.stdout + result.stderr
