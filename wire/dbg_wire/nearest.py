"""Which known word a mistyped one was meant to be. Pure."""

from __future__ import annotations

from collections.abc import Iterable

MIN_LIKENESS = 0.7
"""How alike two words are, from 0 to 1, for one to be offered for the other; a slip in a short verb leaves 0.85."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, None if none is much like it."""
    import difflib  # loaded for mistakes alone

    return next(iter(difflib.get_close_matches(word, list(known), 1, MIN_LIKENESS)), None)
