"""The search that follows branches, as `make fuzz` runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.time_unit import seconds


def fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *words], check=False, capture_output=True, text=True, timeout=seconds(60)
    )


def test_a_sound_target_ends_with_how_often_it_was_tried() -> None:
    pytest.importorskip("atheris")
    done = fuzz("--seconds=1", "strangers")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("strangers: done ")


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    done = fuzz("nothing")
    assert done.returncode == 2
    assert "no target nothing; take control, frames" in done.stderr
