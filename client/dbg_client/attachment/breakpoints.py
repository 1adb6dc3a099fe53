"""The breakpoints that a user leaves behind, to be set again in a later job. Pure."""

from __future__ import annotations

from dbg_wire.ranks import Breakpoint


class Breakpoints:
    """The breakpoints of every rank that this terminal was at, as the rank told them last.

    They outlive sessions and ranks.
    """

    def __init__(self) -> None:
        self._by_rank: dict[str, tuple[Breakpoint, ...]] = {}

    def note(self, key: str, breakpoints: tuple[Breakpoint, ...]) -> None:
        """Replace what is known of the rank with this key."""
        self._by_rank[key] = breakpoints

    @property
    def all(self) -> tuple[Breakpoint, ...]:
        """Return the breakpoints of all ranks, ordered by file and line, each once."""
        found = {one for told in self._by_rank.values() for one in told}
        return tuple(sorted(found, key=lambda one: (one.file, one.line, one.condition or "")))
