"""JSON with comments, as VS Code's files have it: what it says, and where something can be put in. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<mark>[{}\[\],:])
  | (?P<plain>[^\s{}\[\],:"/]+)
    """,
    re.VERBOSE | re.DOTALL,
)


class NotRead(Exception):
    """Say that a text is no JSON with comments that is understood here; the caller refuses to change the file."""


def read(text: str) -> Any:
    """Return what the text says. Raises NotRead."""
    words = [word for kind, word, _ in _tokens(text) if kind != "blank"]
    # VS Code allows a comma behind the last entry.
    kept = [
        word for word, behind in zip(words, [*words[1:], ""], strict=True) if word != "," or behind not in ("]", "}")
    ]
    try:
        return json.loads(" ".join(kept))
    except (ValueError, RecursionError):
        raise NotRead from None


def begin_of_list(text: str, name: str) -> int:
    """Return the index behind the bracket that opens the list ``name`` of the outermost object. Raises NotRead."""
    depth, before = 0, ["", ""]
    for kind, word, end in _tokens(text):
        if kind == "blank":
            continue
        if word == "[" and depth == 1 and before == [json.dumps(name), ":"]:
            return end
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(word, 0) if kind == "mark" else 0
        before = [before[1], word]
    raise NotRead


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each token with its kind and the index behind it. Raises NotRead."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotRead
        at = match.end()
        yield str(match.lastgroup), match.group(), at
