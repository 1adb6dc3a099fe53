"""Start a training command under ``dbg-attach run`` that outlives this server, and say where its output is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from dbg_client.core.own_process import ATTACH, own_command
from dbg_wire.errors import BadInput, printable

START_SECONDS = 1.0
"""Seconds in which a command that can't be started has usually ended."""


async def start_run(command: Sequence[str], *, directory: str | None, stop_at: str | None, post_mortem: bool) -> str:
    """Start a command under ``dbg-attach run``, with a session of its own, and say where its output is.

    The command goes on when this process ends. Raises BadInput for a command or directory that can't be used.
    """
    if not command:
        raise BadInput("command is empty", "give a program and its arguments")
    if directory is not None and not await asyncio.to_thread(os.path.isdir, directory):
        raise BadInput(f"there is no directory {printable(directory)!r}", "name one of this host")
    if any("\0" in word for word in (*command, directory or "", stop_at or "")):
        raise BadInput("an argument of run has a NUL character", "leave it out")
    output = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="dbg-run-")) / "output.txt"
    words = ["run", f"--output={output}"]
    words += [f"--stop-at={stop_at}"] if stop_at else []
    words += ["--post-mortem"] if post_mortem else []
    # A pipe would block the run once nobody reads it, and end it with this process.
    errors = output.with_name("errors.txt")
    return await asyncio.to_thread(_start, own_command(ATTACH, [*words, "--", *command]), directory, output, errors)


def _start(words: Sequence[str], directory: str | None, output: Path, errors: Path) -> str:
    """Start it, and return what is told of it; in a thread, as this waits for an early end."""
    try:
        with errors.open("wb") as told:
            process = subprocess.Popen(
                words,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=told,
                start_new_session=True,
            )
    except (OSError, UnicodeEncodeError) as error:
        raise BadInput(f"dbg-attach can't be started: {printable(str(error), 200)}", "change the arguments") from None
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(START_SECONDS)
    if process.returncode:
        said = printable(errors.read_bytes()[:4096].decode("utf-8", "replace").strip(), 500)
        return f"it ended with status {process.returncode}: {said or 'it said nothing'}"
    threading.Thread(target=process.wait, name="dbg-run-end", daemon=True).start()
    return f"started (pid {process.pid}); errors of the run itself are in {errors}, and what it prints is in {output}"
