"""A mistyped input is answered with one sentence that does no harm and shows no secret, and with status 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.processes import run_command
from tests.support.ranks import attach_command
from tests.support.sentence import HOSTILE, SECRET, check_sentence
from tests.support.time_unit import seconds


def check(command: Sequence[str], status: int, secrets: Sequence[str] = (SECRET,), text: str = "", **env: str) -> None:
    """Run a command without a terminal; fail unless it ends with this status and prints only one sentence."""
    done = run_command(command, {**os.environ, **env}, seconds(30))
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    check_sentence(done.stderr, text, secrets)


@pytest.mark.parametrize(
    "command",
    [
        attach_command("0", "--escape", f"{HOSTILE}"),
        [sys.executable, "-m", "dbg_broker", "serve", "--listen", HOSTILE],
        [sys.executable, "-m", "dbg_agent", HOSTILE],
    ],
    ids=["dbg-attach", "dbg-broker", "dbg_agent"],
)
def test_mistyped_input_is_named(command: Sequence[str], home: Path) -> None:
    check(command, 2, text="pwned")
