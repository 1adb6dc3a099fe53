"""``run --tmux`` outside of tmux: the same run, in a new session that this terminal shows."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from dbg_dial.files import directory_in_memory
from dbg_wire.errors import BadInput, ReasonedError
from dbg_wire.finding.environment import pane_environment

ANSWER_SECONDS = 30.0
"""Seconds for an answer of tmux, which may have to start its server."""

_SCRIPT = r"""
# The shell reads on after its script is gone: a run that is killed leaves no file with an environment behind.
rm -f -- "$0"
cd -- {directory}
# Ctrl-C is for the run.
trap : INT
{command}
status=$?
echo $status >{status}
printf '\ndbg-broker run has ended with status %s. Enter closes the pane. ' $status
read -r _
rm -rf -- "${{0%/*}}"
"""
"""What the session runs behind its environment. Nothing of it is on a command line, which others could read."""


class NoSession(ReasonedError):
    """Say that tmux has made no session, and why."""

    sentence = "tmux opens no session ({reason}); leave --tmux out, or type it inside of tmux"


def run_in_session(
    command: Sequence[str], environ: Mapping[str, str], directory: str, say: Callable[[str], None]
) -> int:
    """Run a command in a new session of tmux, show that, and return the command's status, or 0 while it goes on.

    Raise NoSession and BadInput.
    """
    if not (os.isatty(0) and os.isatty(1)):
        raise BadInput("--tmux needs a terminal to show its session in", "type it in a terminal, or leave it out")
    folder = directory_in_memory(environ)
    script, told = folder / "run", folder / "status"
    text = pane_environment(environ) + _SCRIPT.format(
        directory=shlex.quote(directory), command=shlex.join(command), status=shlex.quote(str(told))
    )
    goes_on = False
    try:
        script.write_text(text, encoding="utf-8", errors="surrogateescape")
        # The file may be gone by the time at which it is read.
        with told.open("w+", encoding="ascii") as status:
            session = _open_session(str(script), environ)
            subprocess.run(["tmux", "attach-session", "-t", session], env=environ, check=False)
            text = status.read()
        goes_on = not text and _is_there(session, environ)
    finally:
        if not goes_on:
            shutil.rmtree(folder, ignore_errors=True)
    if goes_on:
        say(f"the run goes on in tmux: `tmux attach-session -t '{session}'` comes back")
        return 0
    # Without a status the pane was ended by force, and the run with it.
    return int(text) if text.strip().isdigit() else 1


def _open_session(script: str, environ: Mapping[str, str]) -> str:
    columns, rows = os.get_terminal_size(1)
    size = ["-x", str(columns or 80), "-y", str(rows or 24)]
    made = ["new-session", "-d", "-P", "-F", "#{session_id}", "-n", "dbg-broker", *size, "sh", script]
    return _tmux(made, environ).strip()


def _is_there(session: str, environ: Mapping[str, str]) -> bool:
    with contextlib.suppress(NoSession):
        _tmux(["has-session", "-t", session], environ)
        return True
    return False


def _tmux(words: Sequence[str], environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            ["tmux", *words], env=environ, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except FileNotFoundError:
        raise NoSession("tmux is not on PATH") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise NoSession(type(error).__name__) from None
    if done.returncode:
        raise NoSession(done.stderr.strip() or f"status {done.returncode}")
    return done.stdout
