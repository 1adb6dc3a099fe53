"""The program in the first pane of a session of tmux: the run, in the environment of whoever asked for the session.

Run as a script by an interpreter without site-packages (``-I -S``), since the server of tmux has an environment of its
own; it may import the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

OWN = ("TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLUMNS", "LINES")
"""Variables that are the pane's own, not those of whoever asked."""


def main(path: str) -> int:
    """Take over what to run from the socket at ``path``, run it, tell its status, and stay until it was read."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        handed = json.loads(connection.makefile().readline())
        environ = {name: value for name, value in handed["environ"].items() if name not in OWN}
        environ |= {name: value for name, value in os.environ.items() if name in OWN}
        # Ctrl-C is for the run. A handler, since the run would inherit an ignored signal.
        signal.signal(signal.SIGINT, lambda *_: None)
        done = subprocess.run(handed["command"], env=environ, cwd=handed["directory"], check=False)
        status = 128 - done.returncode if done.returncode < 0 else done.returncode
        with contextlib.suppress(OSError):
            connection.sendall(f"{status}\n".encode())
    with contextlib.suppress(EOFError, OSError):
        input(f"\ndbg-broker run has ended with status {status}. Enter closes the pane. ")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"this pane was not told what to run ({error}); type `dbg-broker run --tmux` again")
