"""Texts that many ranks have in common, kept once as long as they keep coming. Pure."""

from __future__ import annotations

from collections import OrderedDict

MAX_TEXTS = 8192
"""Texts remembered: two of each host and six of each job, for the largest job there is."""

MAX_BYTES = 1024 * 1024
"""Characters of all of them. They are strangers' texts: what ``sys.intern`` keeps, Python 3.12 never lets go."""


class SharedTexts:
    """Give equal texts as one object, as long as they are among the last that came. The length is their number."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._texts)

    def share(self, text: str) -> str:
        """Return the text, as the object that others were given if it is remembered."""
        known = self._texts.setdefault(text, text)
        if known is text:
            self.size += len(text)
        self._texts.move_to_end(text)
        while len(self._texts) > MAX_TEXTS or self.size > MAX_BYTES:
            oldest, _ = self._texts.popitem(last=False)
            self.size -= len(oldest)
        return known
