"""The codes with which the broker closes a WebSocket; codes from 4000 on are the broker's own."""

from __future__ import annotations

from dbg_dial import handover

DONE = 1000
"""The connection is not needed any more."""

SHUTDOWN = handover.SHUTDOWN
"""The broker ends."""

BAD_MESSAGE = 1002
"""The peer broke the protocol."""

REPLACED = 4000
"""A newer connection of the same rank took over."""

SLOW = 4001
"""The peer does not keep up."""

GIVES_WAY = 4002
"""Another terminal needs the place."""

REVOKED = 4003
"""The token was revoked, was replaced, or has expired."""
