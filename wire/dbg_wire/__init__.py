"""The protocol between agent, broker and client: messages, states, bounds. No I/O.

This module has the version numbers that decide if two peers are compatible.
"""

from __future__ import annotations

try:
    from dbg_wire._release import version as _version  # each build and installation writes this module
except ImportError:
    _version = "0.1.dev0"

RELEASE: str = _version
"""Version of the distribution, from the tag or commit that it was built from."""

PROTOCOL_MAJOR = 1
"""Peers with different major versions reject each other; the error names both."""

PROTOCOL_MINOR = 0
"""Increases when a message or field is added; peers with an older minor of the same major keep working."""


def subprotocol() -> str:
    """Return the WebSocket subprotocol for the protocol's major version, such as ``dbg.v1``."""
    return f"dbg.v{PROTOCOL_MAJOR}"
