"""The codes with which the broker closes a WebSocket; those from 4000 on are our own."""

from __future__ import annotations

DONE = 1000
"""All is said."""

SHUTDOWN = 1001
"""The broker ends."""

BAD_MESSAGE = 1002
"""The peer broke the protocol."""

REPLACED = 4000
"""A newer connection of the same rank took over."""

SLOW = 4001
"""The peer does not keep up."""

GIVES_WAY = 4002
"""Somebody else needs the place."""
