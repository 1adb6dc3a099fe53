"""What agent, broker and client say to each other: messages, states, bounds. No I/O.

Here: names and numbers by which two peers decide whether they can talk.
"""

from __future__ import annotations

try:
    from dbg_wire._release import version as _version  # written by each build and installation
except ImportError:
    _version = "0.1.dev0"

RELEASE: str = _version
"""The distribution's version, made of the tag or commit that it was built from."""

PROTOCOL_MAJOR = 1
"""Peers with different majors refuse each other; the refusal names both."""

PROTOCOL_MINOR = 0
"""Grows when a message or field is added; an older minor of the same major keeps working."""


def subprotocol() -> str:
    """Return the WebSocket subprotocol that stands for the protocol's major, e.g. ``dbg.v1``."""
    return f"dbg.v{PROTOCOL_MAJOR}"
