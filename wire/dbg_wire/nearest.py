"""Which known word a mistyped one was meant to be. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, None if none is much like it."""
    import difflib  # loaded for mistakes alone

    return next(iter(difflib.get_close_matches(word, list(known), 1)), None)
