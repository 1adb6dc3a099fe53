"""Lines of an asciicast of version 2, which all players know: a header, then events with their time. Pure.

The format is that of asciinema: https://docs.asciinema.org/manual/asciicast/v2/
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

OUTPUT, INPUT, RESIZE, MARKER = "o", "i", "r", "m"
"""The codes of events."""

_HIDDEN = frozenset(map(chr, (*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))))
"""Control characters above 32, and characters that end lines or turn the direction of text."""

_ANY_HIDDEN = re.compile(f"[{''.join(_HIDDEN)}]")


def encode_header(*, columns: int, rows: int, timestamp: float, title: str, about: Mapping[str, str]) -> bytes:
    """Return the first line; ``timestamp`` is in seconds since the epoch, ``about`` names what has no field."""
    document = {
        "version": 2,
        "width": columns,
        "height": rows,
        "timestamp": int(timestamp),
        "title": title,
        "env": {"TERM": "xterm-256color", **{name: text for name, text in about.items() if text}},
    }
    return _line(document)


def encode_event(seconds: float, code: str, data: str) -> bytes:
    """Return the line of an event so many seconds after the beginning."""
    return _line([round(seconds, 3), code, data])


def _line(document: object) -> bytes:
    text = json.dumps(document, ensure_ascii=False)
    if (not text.isascii() or "\x7f" in text) and _ANY_HIDDEN.search(text):
        # A recording may be looked at with `cat`: JSON escapes the control characters below 32, and this the others.
        # Each kind is replaced at once: a call for each of 65,536 characters would keep the event loop from running.
        for hidden in _HIDDEN.intersection(text):
            text = text.replace(hidden, f"\\u{ord(hidden):04x}")
    return text.encode("utf-8", "replace") + b"\n"
