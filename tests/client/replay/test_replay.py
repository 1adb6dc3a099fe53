"""A replay without a terminal: text, at once; and what can't be played."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.replay.tapes import cast, screen


def replay(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dbg_client", *words]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


def test_the_text_is_printed_without_delay(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    events = [(3600.0, "o", "(Pdb) "), (3600.0, "o", "\x1b[31mp 1\x1b[0m\r\n1\r\n"), (9.0, "m", "bob\x1b[2J types")]
    path.write_bytes(cast(*events, (1.0, "o", screen("PuDB"))) + b'[1, "o"')
    done = replay("--replay", str(path))
    assert done.stdout.splitlines()[:3] == ["(Pdb) p 1", "1", "--- 0:06 bob\\x1b[2J types"]
    assert "\nPuDB\n" in done.stdout
    assert "in the middle of a line" in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--replay", "{0}/missing.cast"), r"missing.cast can't be read (No such file or directory)"),
        (("--replay", "{0}"), "can't be read (Is a directory)"),
        (("--replay", "{0}/text"), "text is no recording; name a .cast file"),
        (("--replay", ""), "--replay needs a file"),
        (("--replay", "a", "5"), "a TARGET is about ranks, and --replay shows a file"),
        (("--replay", "a", "--list"), "--list and --replay are two actions"),
        (("--replay", "a", "--idle", "x"), "--idle 'x' is no span of time"),
        (("--idle", "3"), "--idle is for a replay; add --replay FILE"),
        (("--replay", "a", "--json"), "--json is about ranks"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_sentence(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "text").write_text("hello\n")
    done = replay(*(word.format(tmp_path) for word in words))
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == 2
