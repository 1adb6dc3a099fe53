"""Tokens that may travel in the clear: the tokens of a broker without TLS, which are void when it has ended. Pure."""

from __future__ import annotations

MARK = "insecure-"
"""The first characters of a throw-away token, by which ranks and terminals tell it from a lasting one."""

WHERE_THEY_ARE = "use what `dbg-broker token` prints while it serves --insecure, or write wss://…#sha256:…"


def is_throw_away(token: str) -> bool:
    """Tell whether a token may be sent without TLS, where an impostor may have taken the broker's place."""
    return token.startswith(MARK)
