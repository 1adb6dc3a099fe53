"""Typed bytes as prompt_toolkit's key presses, and back."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

ESCAPE_SECONDS = 0.05
"""Seconds after which a lone Esc is the Esc key; the bytes of an arrow key come together."""


def key_presses(data: bytes) -> list[KeyPress]:
    """Return the keys that these bytes are."""
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed_and_flush(data.decode("utf-8", "surrogateescape"))
    return presses


def key_bytes(presses: Iterable[KeyPress]) -> bytes:
    """Return the bytes that these keys were typed as."""
    return "".join(press.data for press in presses).encode("utf-8", "surrogateescape")
