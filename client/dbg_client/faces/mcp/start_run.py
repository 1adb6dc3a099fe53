"""Start a training command under ``dbg-broker run`` that outlives this server, and say where its output is."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dbg_wire.errors import BadInput, printable

START_SECONDS = 1.0
"""Seconds in which a command that can't be started has usually ended."""


async def start_run(command: Sequence[str], *, directory: str | None, stop_at: str | None, post_mortem: bool) -> str:
    """Start a command under ``dbg-broker run``, with a session of its own, and say where its output is.

    The command goes on when this process ends. Raises BadInput for a command or directory that can't be used.
    """
    if not command:
        raise BadInput("command is empty", "give a program and its arguments")
    if directory is not None and not await asyncio.to_thread(os.path.isdir, directory):
        raise BadInput(f"there is no directory {printable(directory)!r}", "name one of this host")
    if any("\0" in word for word in (*command, directory or "", stop_at or "")):
        raise BadInput("an argument of run has a NUL character", "leave it out")
    output = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="dbg-run-")) / "output.txt"
    words = [_broker(), "run", f"--output={output}"]
    words += [f"--stop-at={stop_at}"] if stop_at else []
    words += ["--post-mortem"] if post_mortem else []
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            "--",
            *command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, UnicodeEncodeError) as error:
        raise BadInput(f"dbg-broker can't be started: {printable(str(error), 200)}", "change the arguments") from None
    told = await _first_words(process)
    if process.returncode:
        return f"it ended with status {process.returncode}: {told or 'it said nothing'}"
    return f"started (pid {process.pid}); what it prints is in {output}"


async def _first_words(process: asyncio.subprocess.Process) -> str:
    ending = asyncio.ensure_future(process.wait())
    await asyncio.wait([ending], timeout=START_SECONDS)
    if not ending.done() or process.stderr is None:
        ending.cancel()
        return ""
    return printable((await process.stderr.read(4096)).decode("utf-8", "replace").strip(), 500)


def _broker() -> str:
    beside = [Path(program).with_name("dbg-broker") for program in (sys.argv[0], sys.executable)]
    found = next((str(path) for path in beside if path.exists()), None) or shutil.which("dbg-broker")
    if found is None:
        raise BadInput("there is no dbg-broker beside dbg-attach", "install dbg-broker on this host")
    return found
