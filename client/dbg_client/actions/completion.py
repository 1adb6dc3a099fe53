"""``dbg-attach --complete``, which a shell calls at each Tab, and ``dbg-attach completion``, which makes it do so.

Verbs and options are written before the broker is asked, so that they are there whatever becomes of it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dbg_client.words.candidates import complete_words
from dbg_wire.command_line.completion import completion_script
from dbg_wire.command_line.parser import lines

GRACE_SECONDS = 0.5
"""Seconds more than the broker has, after which the process ends: name servers and file systems may hang."""


def complete(words: Sequence[str]) -> int:
    """Write what the last word may become, a line each, and return 0."""
    found, has_targets = complete_words(words)
    _write(found)
    if has_targets:
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
                _write(lines(find(os.environ), current))
        finally:
            faulthandler.cancel_dump_traceback_later()


def _write(found: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.flush()
