"""The program in a pane of tmux: it takes over the opener's environment, attaches, and stays when that has ended.

Run as a script by an interpreter without site-packages (``-I -S``), since the server of tmux has an environment of its
own; it may import the standard library alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import termios
import tty
from collections.abc import Mapping
from typing import Any

OWN = ("TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLUMNS", "LINES")
"""Variables that are the pane's own, not the opener's."""

_ATTACH = """\
import sys
sys.path[:] = filter(None, sys.path)
from dbg_client.cli.main import main
sys.exit(main())
"""
"""``python -m dbg_client`` without the present directory on its path: it would import a user's ``random.py`` there."""

_CHUNK = 65536


def main(path: str, number: int) -> int:
    """Run one pane, by its number among those that are handed over at ``path``, until the user closes it."""
    handed = take(path)
    title, words = handed["panes"][number]
    environ = own_environment(handed["environ"], os.environ)
    directory = handed["directory"]
    # Ctrl-C is for the attach. A handler, since the attach would inherit an ignored signal.
    signal.signal(signal.SIGINT, lambda *_: None)
    while True:
        status = attach(words, environ, directory)
        how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
        if not again(f"\r\ndbg-attach {title} {how}. Enter attaches again, q closes the pane.\r\n"):
            return 0


def take(path: str) -> Any:
    """Return the document that the opener hands over on its socket. Raises OSError, and ValueError if it is cut."""
    parts = []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        while part := connection.recv(_CHUNK):
            parts.append(part)
    return json.loads(b"".join(parts))


def own_environment(handed: Mapping[str, str], pane: Mapping[str, str]) -> dict[str, str]:
    """Return the opener's environment, with what describes the terminal taken from the pane."""
    kept = {name: value for name, value in handed.items() if name not in OWN}
    return kept | {name: value for name, value in pane.items() if name in OWN}


def attach(words: list[str], environ: Mapping[str, str], directory: str | None) -> int:
    """Attach, and return the exit status; a signal that ended it is a negative number."""
    done = subprocess.run([sys.executable, "-c", _ATTACH, *words], env=environ, cwd=directory, check=False)
    return done.returncode


def again(question: str) -> bool:
    """Put the question and return whether Enter was the answer; q and a terminal that is gone are a no."""
    before = termios.tcgetattr(0)
    # What was typed before was meant for the debugger, and is dropped.
    tty.setcbreak(0)
    try:
        os.write(1, question.encode("utf-8", "replace"))
        while key := os.read(0, 1):
            if key in b"qQ\x04":
                return False
            if key in b"\r\n":
                return True
        return False
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], int(sys.argv[2])))
    except (OSError, ValueError) as error:
        sys.exit(f"this pane got no environment from the `dbg-attach tmux` that opened it ({error})")
