"""The stack of a rank's main thread with its frames of C code, as py-spy reads it from the rank's memory."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dbg_agent.guard.command import Command, Output
from dbg_agent.guard.yama import SCOPE
from dbg_wire.errors import printable
from dbg_wire.limits import MAX_STACK_BYTES, MAX_STACK_FRAMES, MIB
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted, within_bytes

PROGRAM = "py-spy"

MAX_OUTPUT = 16 * MIB
"""Bytes of py-spy's output that are read: a thousand deep threads."""


class NoStack(Exception):
    """No stack can be read, with the reason as a sentence."""


async def native_stack(pid: int, environ: Mapping[str, str], seconds: float, own: Sequence[str]) -> tuple[Place, ...]:
    """Return the main thread's frames, outermost first, but those in our ``own`` folders.

    The process stands still meanwhile, some hundredths of a second. Raise NoStack if that can't be done.
    """
    program = find_program(environ)
    words = [program, "dump", "--native", "--json", "--full-filenames", "--pid", str(pid)]
    command = Command(words, environ, "/", Output(MAX_OUTPUT, 0))
    end = await command.finish(seconds)
    said = command.output.text()
    if end.ended:
        raise NoStack(f"{PROGRAM} was not done within {seconds:.3g} s, and was ended")
    if end.status != 0:
        raise NoStack(_why(said, _read(SCOPE).strip()))
    return frames_of(said, pid, own)


def find_program(environ: Mapping[str, str]) -> str:
    """Return the path of py-spy, on the rank's PATH or beside its Python. Raise NoStack if there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)  # noqa: PTH118, PTH120
    found = shutil.which(PROGRAM, path=environ.get("PATH")) or shutil.which(beside)
    if found is None:
        raise NoStack(f"{PROGRAM} is not installed there: `pip install {PROGRAM}` into the job's environment")
    return found


def frames_of(text: str, pid: int, own: Sequence[str]) -> tuple[Place, ...]:
    """Return the main thread's frames of py-spy's JSON. Raise NoStack for another text."""
    try:
        threads: list[dict[str, Any]] = json.loads(text)
        # Within the process's own numbers the main thread has that of the process.
        main = [thread for thread in threads if thread["os_thread_id"] in (pid, thread["pid"])] or threads[-1:]
        frames = [_place(frame) for frame in main[0]["frames"]]
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        raise NoStack(f"{PROGRAM} says {printable(text.strip(), 100)!r}, which is no stack") from None
    folders = tuple(folder.rstrip("/") + "/" for folder in own)
    innermost = [place for place in frames if not place.file.startswith(folders)]
    kept, _ = within_bytes(innermost[: MAX_STACK_FRAMES - 1], MAX_STACK_BYTES)
    if len(kept) < len(innermost):
        left_out = f"[{len(innermost) - len(kept)} frames left out]"
        kept.append(fitted(Place, file="", line=0, function=left_out))
    return tuple(reversed(kept))


def _place(frame: dict[str, Any]) -> Place:
    file = str(frame["module"] or frame["filename"])
    return fitted(Place, file=file, line=max(0, int(frame["line"] or 0)), function=str(frame["name"]))


def _why(said: str, scope: str) -> str:
    if "ermission" not in said and "not permitted" not in said:
        return f"{PROGRAM} failed: {printable(said.strip().partition(chr(10))[0])}"
    if scope in ("2", "3"):
        return f"no process may trace another one there: kernel.yama.ptrace_scope is {scope}, which only root changes"
    if scope == "1":
        return (
            "kernel.yama.ptrace_scope is 1 there, so the rank must allow it, and could not: it was stuck already;"
            " `sysctl kernel.yama.ptrace_scope=0`, by root, lets it be read"
        )
    return "tracing is forbidden there: a container needs the capability SYS_PTRACE for it"


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""
