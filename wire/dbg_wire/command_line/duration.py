"""Spans of time as users write them: 60, 60s, 5m, 1h, 2d. Pure."""

from __future__ import annotations

import re

from dbg_wire.errors import BadInput, printable

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(s|m|h|d)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_duration(text: str, name: str, most: float) -> float:
    """Return the seconds that a text means. Raise BadInput, naming the option, if it means none or too many."""
    found = _SPAN.fullmatch(text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found is not None else 0.0
    if seconds > most:
        raise BadInput(f"{name} {printable(text)!r} is longer than can be", f"give {_shown(most)} at most")
    if seconds <= 0:
        raise BadInput(f"{name} {printable(text)!r} is no span of time", "write one such as 60s, 5m or 1h")
    return seconds


def _shown(seconds: float) -> str:
    return f"{seconds / 86400:g}d" if seconds >= 86400 else f"{seconds:g}s"
