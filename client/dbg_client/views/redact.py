"""Take secrets out of a text that is for others. Pure."""

from __future__ import annotations

import re

OUT = "[taken out]"

_NAMED = re.compile(
    r"(?i)\b([\w.-]*(?:token|secret|passw(?:or)?d|passwd|api[_-]?key|access[_-]?key|credentials?|authorization|bearer)"
    r"[\w.-]*['\"]?\s*(?:=|:)\s*|bearer\s+)(?:(?:bearer|basic)\s+)?(['\"]?)[^\s'\",;)}\]]{3,}"
)
"""A name that looks secret, and what stands behind it."""

_USER = re.compile(r"(\w+://)[^\s/@]+@")
"""User and password in a URL."""

_KNOWN = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|glpat-[\w-]{16,}|xox[abpr]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{12,}|insecure-[\w-]{8,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
)
"""Keys and tokens whose beginning tells what they are."""

_RANDOM = re.compile(r"(?<![\w/.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?:[\w-]{43}|(?=[\w-]*[0-9])[\w-]{32,})(?![\w/.-])")
"""Letters and digits as nobody writes them; paths and names of files are left alone. A broker's token has 43 of them,
and one in a thousand has no digit."""


def without_secrets(text: str) -> str:
    """Return the text with whatever looks like a password, a token or a key replaced by :data:`OUT`."""
    text = _USER.sub(rf"\1{OUT}@", text)
    text = _NAMED.sub(rf"\1\2{OUT}", text)
    return _RANDOM.sub(OUT, _KNOWN.sub(OUT, text))
