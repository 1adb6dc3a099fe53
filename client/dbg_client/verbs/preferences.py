"""User preferences: the escape key, the debugger, timeout and pager, and the texts that name them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dbg_dial.home import ENGINE
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.ranks import ENGINES, PDB, PUDB

COMMON_NAMES = {PUDB: "PuDB", PDB: "pdb"}

DEFAULT_PREFIX = b"\x1d"
"""Ctrl-]: telnet's key, which neither PuDB nor a terminal multiplexer binds."""

DEFAULT_TIMEOUT = 10.0
"""Timeout in seconds for the broker and for answers of ranks.

On a busy login node an answer takes a few seconds. Users do not want to wait longer than this.
"""

PAGER = "less"
"""Default command to show long answers."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The debugger to open: ``asked`` is the one that the user has requested, if any.

    ``default`` is the one to open if neither the user, the stop nor the rank names a debugger.
    """

    asked: str | None = None
    default: str | None = None


ANY_ENGINE = EngineSpec()


def read_engine(text: str) -> str:
    """Return the debugger that a preference names. Raise BadInput for an unknown one."""
    if text not in ENGINES:
        raise BadInput(f"{ENGINE} {printable(text)!r} is not a supported debugger", f"use {' or '.join(ENGINES)}")
    return text


_OWNED = frozenset("CDHIJMQSZ[?")
"""Keys that the debugger or the terminal needs: for interrupt, end, suspend, flow control and editing."""


def parse_escape_key(text: str) -> bytes | None:
    """Read an escape key as users write it: ``^]`` or ``none``.

    Return the byte that the key sends, or None for no escape key. Raise BadInput for anything else, and for keys that
    the debugger or the terminal needs.
    """
    if text.lower() == "none":
        return None
    key = text[1:].upper()
    if not re.fullmatch(r"\^[?-_A-Z]", text, re.IGNORECASE | re.ASCII):
        raise BadInput(f"escape key '{printable(text)}' is not a control key", "write it as ^] or ^\\, or none")
    if key in _OWNED:
        raise BadInput(f"the debugger or the terminal needs {text} itself", "use another key, such as ^] or ^\\")
    return bytes([ord(key) ^ 0x40])


def key_name(prefix: bytes) -> str:
    """Return the key for the byte ``prefix``, as in ``Ctrl-]``."""
    return f"Ctrl-{chr(prefix[0] ^ 0x40)}"
