"""Which known word a mistyped one was meant to be. Pure."""

from __future__ import annotations

from collections.abc import Iterable

MIN_LIKENESS = 0.7
"""How alike two words are, from 0 to 1, for one to be offered for the other; a slip in a short verb leaves 0.85."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, the first of equals; None if none is much like it."""
    from difflib import SequenceMatcher  # loaded for mistakes alone

    likeness = {one: SequenceMatcher(None, one, word).ratio() for one in known}
    best = max(likeness, key=likeness.__getitem__, default=None)
    return best if best is not None and likeness[best] >= MIN_LIKENESS else None
