"""The groups of the last answer, which are targets of later calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Memory:
    """The groups of the last answer of one broker, by their names."""

    def __init__(self) -> None:
        self.groups: Mapping[str, frozenset[str]] = {}

    def keep(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Keep the groups of an answer instead of those before."""
        self.groups = {name: frozenset(keys) for name, keys in groups.items()}
