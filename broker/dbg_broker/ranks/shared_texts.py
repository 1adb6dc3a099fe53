"""Texts that many ranks have in common, kept once as long as they keep coming. Pure."""

from __future__ import annotations

from collections import OrderedDict

MAX_TEXTS = 8192
"""Texts remembered: two of each host and six of each job, for the largest job there is."""

MAX_BYTES = 1024 * 1024
"""Characters of all texts. Strangers choose them, and Python 3.12 never frees a text of ``sys.intern``."""


class SharedTexts:
    """The last texts that came; equal ones are one object. The length is their number."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._texts)

    def share(self, text: str) -> str:
        """Return the remembered object that equals the text, or else the text itself."""
        known = self._texts.setdefault(text, text)
        if known is text:
            self.size += len(text)
        self._texts.move_to_end(text)
        while len(self._texts) > MAX_TEXTS or self.size > MAX_BYTES:
            oldest, _ = self._texts.popitem(last=False)
            self.size -= len(oldest)
        return known
