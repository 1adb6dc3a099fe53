"""Attacks of those who have no token, each a function for ``attacker.py``."""

from __future__ import annotations

import contextlib
import socket

from tests.attacks.attacker import Begun
from tests.attacks.target import Target


def connects(target: Target, begun: Begun, *, held: int = 500) -> None:
    """Connect without a word, again and again, and keep the newest connections."""
    kept: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            kept.append(target.plain())
        if len(kept) >= held:
            begun()
            kept.pop(0).close()
