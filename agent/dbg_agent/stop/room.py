"""The room on a thread's stack that a stop needs."""

from __future__ import annotations

STACK_FRAMES = 100
"""Depth of calls that a stop needs, imports at its first use included; with less it could break off anywhere."""


def has_room(frames: int = STACK_FRAMES) -> bool:
    """Return True, or raise RecursionError if the stack has no room for so many calls."""
    return frames == 0 or has_room(frames - 1)
