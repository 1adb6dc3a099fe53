"""``dbg-attach --complete``, which a shell calls at each Tab, and ``dbg-attach completion``, which makes it do so.

Verbs and options are written before the broker is asked, so that they are there whatever becomes of it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from dbg_client.words.candidates import Candidate, complete_words
from dbg_wire.command_line.completion import FILES, completion_script

GRACE_SECONDS = 0.5
"""Seconds more than the broker has, after which the process ends: name servers and file systems may hang."""


def complete(words: Sequence[str]) -> int:
    """Write what the last word may become, a line each, and return 0."""
    completion = complete_words(words)
    if completion.files:
        sys.stdout.write(f"{FILES}\n")
    _write(completion.words)
    if completion.targets:
        _write_targets(words[-1] if words else "")
    return 0


def write_script(shell: str) -> int:
    """Write the script for a shell, and return 0."""
    sys.stdout.write(completion_script("dbg-attach", shell))
    sys.stdout.flush()
    return 0


def _write_targets(current: str) -> None:
    from dbg_client.core.live_targets import live_ranks, patience, remembered_targets

    with Path(os.devnull).open("w") as nowhere:
        # A C call that hangs can be ended by nothing else, and this has no state to leave behind.
        faulthandler.dump_traceback_later(sum(patience(os.environ)) + GRACE_SECONDS, exit=True, file=nowhere)
        try:
            for find in (remembered_targets, live_ranks):
                _write(target for target in find(os.environ) if target[0].startswith(current))
        finally:
            faulthandler.cancel_dump_traceback_later()


def _write(candidates: Iterable[Candidate]) -> None:
    sys.stdout.write("".join(f"{word}\t{meaning}\n" if meaning else f"{word}\n" for word, meaning in candidates))
    sys.stdout.flush()
