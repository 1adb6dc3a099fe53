"""Which collectives this process knows of: those of each library that the program has loaded."""

from __future__ import annotations

from dbg_wire.evidence import CollectiveSeen, GroupSeen, SourceSeen


def collectives_seen() -> list[SourceSeen | GroupSeen | CollectiveSeen]:
    """Return the sources, groups and collectives; empty if the program has loaded no library that has any."""
    return []
