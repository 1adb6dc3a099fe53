"""The tokens that a serving broker has written into its home."""

from __future__ import annotations

import json
from pathlib import Path


def written_tokens(home: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("broker.json", "driver.json"):
        found |= json.loads((home / name).read_text())["tokens"]
    return found
