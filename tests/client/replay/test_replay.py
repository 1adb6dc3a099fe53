"""A replay without a terminal: text, at once; and what can't be played."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_what_cannot_be_played_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    for name, said in (
        ("missing.cast", "missing.cast can't be read (No such file or directory); name a .cast file"),
        (".", "can't be read (Is a directory)"),
        ("text", "text is no recording; name a .cast file"),
    ):
        done = replay("--replay", str(tmp_path / name))
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.returncode == 2
