"""The escape key as users write it, and as they are told of it. Pure."""

from __future__ import annotations

import re

from dbg_wire.errors import BadInput, printable

DEFAULT_PREFIX = b"\x1d"
"""Ctrl-]: telnet's key, which neither PuDB nor a terminal multiplexer binds."""

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
