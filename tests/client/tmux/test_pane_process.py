from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_client.tmux import pane_process
from dbg_client.tmux.pane_process import own_environment


def test_the_terminal_is_the_panes_and_all_else_is_the_openers() -> None:
    handed = {"TERM": "xterm", "TMUX": "old", "DBG_TOKEN": "secret", "PATH": "/mine", "COLUMNS": "9"}
    pane = {"TERM": "tmux-256color", "TMUX": "new", "TMUX_PANE": "%1", "PATH": "/servers", "DBG_TOKEN": "old"}

    assert own_environment(handed, pane) == {
        "TERM": "tmux-256color",
        "TMUX": "new",
        "TMUX_PANE": "%1",
        "DBG_TOKEN": "secret",
        "PATH": "/mine",
    }


@pytest.mark.parametrize("document", [None, b"", b'{"environ": {"DBG_TOKEN": "secret'])
def test_a_pane_that_gets_nothing_or_half_says_so(document: bytes | None, tmp_path: Path) -> None:
    folder = os.path.relpath(tmp_path)
    path = f"{folder}/s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        if document is not None:
            listener.listen(1)
        pane = subprocess.Popen(
            [sys.executable, "-I", "-S", pane_process.__file__, path, "0"], stderr=subprocess.PIPE, text=True
        )
        if document is not None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(document)
        _, said = pane.communicate(timeout=60)

    assert pane.returncode == 1
    assert said.startswith("this pane got no environment from the `dbg-attach tmux` that opened it (")
    assert "secret" not in said
    assert len(said.splitlines()) == 1
