"""What a user prefers: the prefix key, the debugger, seconds and pager, and the texts that name them. Pure."""

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
"""Seconds to wait for the broker and for answers of ranks: a busy login node needs a few, a person gives up after."""

PAGER = "less"
"""The command that shows long answers, unless the user names another one."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The debugger that the user asked for, and the one to open where neither stop nor rank has a wish."""

    asked: str | None = None
    default: str | None = None


NO_WISH = Wish()


def read_engine(text: str) -> str:
    """Return the debugger that a preference names. Raise BadInput for one that we don't have."""
    if text not in ENGINES:
        raise BadInput(f"{ENGINE} {printable(text)!r} is no debugger of ours", f"take {' or '.join(ENGINES)}")
    return text


_OWNED = {
    0x03: "the debugger needs it to interrupt",
    0x04: "it means end of input to pdb and page down to PuDB",
    0x08: "it is Backspace",
    0x09: "it is Tab",
    0x0A: "it is Enter",
    0x0D: "it is Enter",
    0x11: "it is flow control",
    0x13: "it is flow control",
    0x1A: "it suspends programs",
    0x1B: "it is Esc, with which every arrow and function key begins",
    0x7F: "it is Backspace",
}


def parse_escape_key(text: str) -> bytes | None:
    """Read an escape key as users write it: ``^]``, ``C-]``, ``ctrl-]``, the control character itself, or ``none``.

    Return the byte that the key sends, or None for no escape key. Raise BadInput for anything else, and for keys
    which the debugger or the terminal needs, saying why.
    """
    if text.lower() == "none":
        return None
    code = _control_code(text)
    if code is None:
        raise BadInput(
            f"escape key '{printable(text)}' is not a control key",
            "write it as ^], ^\\, C-] or ctrl-], or none for no escape key",
        )
    if code in _OWNED:
        raise BadInput(
            f"escape key '{printable(text)}' can't be used, {_OWNED[code]}", "take another one, such as ^] or ^\\"
        )
    return bytes([code])


def _control_code(text: str) -> int | None:
    if len(text) == 1:
        return ord(text) if ord(text) < 0x20 or text == "\x7f" else None
    match = re.fullmatch(r"(?:\^|C-|ctrl-)([?-_a-z])", text, re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    return ord(match[1].upper()) ^ 0x40


def key_name(prefix: bytes) -> str:
    """Return what a user presses for the byte ``prefix``, as ``Ctrl-]``."""
    return f"Ctrl-{chr(prefix[0] ^ 0x40)}"
