"""Names and numbers by which two peers decide whether they can talk."""

from __future__ import annotations

try:
    from ._release import version as _version  # written by each build and installation
except ImportError:
    _version = "0.1.dev0"

RELEASE: str = _version
"""The distribution's version, made of the tag or commit that it was built from."""

PROTOCOL_MAJOR = 1
"""Peers with different majors refuse each other; the refusal names both."""

PROTOCOL_MINOR = 4
"""Grows when a message or field is added; an older minor of the same major keeps working."""

MINOR_OF_EVENTS = 3
"""First minor of brokers that take a ``hang``, and of agents that keep a broker's ``max_lease``."""

MINOR_OF_IDES = 4
"""First minor that knows ``inspect`` and ``breakpoints``, and the number of a stop in the list."""


def subprotocol(major: int = PROTOCOL_MAJOR) -> str:
    """Return the WebSocket subprotocol that stands for a protocol major, e.g. ``dbg.v1``."""
    return f"dbg.v{major}"
