"""Tokens that may travel in the clear: those of one broker without TLS, which open nothing once it has ended. Pure."""

from __future__ import annotations

MARK = "insecure-"
"""What such a token begins with, so that ranks and terminals know it from a lasting one, wherever they have it from."""

WHERE_THEY_ARE = "use what `dbg-broker token` prints while it serves --insecure, or write wss://…#sha256:…"


def is_throw_away(token: str) -> bool:
    """Tell whether a token may be sent to a broker without TLS, whose place anybody may have taken."""
    return token.startswith(MARK)
