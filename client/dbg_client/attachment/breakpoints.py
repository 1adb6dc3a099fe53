"""The breakpoints that a user leaves behind, to be set again in a later job. Pure."""

from __future__ import annotations

from collections.abc import Callable

from dbg_wire.records.ranks import Breakpoint


class Breakpoints:
    """The breakpoints of every rank that this terminal was at, as the rank told them last.

    They outlive sessions and ranks. ``on_change`` is called with all of them when they are others than before.
    """

    def __init__(self, on_change: Callable[[tuple[Breakpoint, ...]], None] | None = None) -> None:
        self._by_rank: dict[str, tuple[Breakpoint, ...]] = {}
        self._on_change = on_change

    def note(self, key: str, breakpoints: tuple[Breakpoint, ...]) -> None:
        """Replace what is known of the rank with this key."""
        if self._by_rank.get(key, ()) != breakpoints:
            self._by_rank[key] = breakpoints
            if self._on_change is not None:
                self._on_change(self.all)

    @property
    def all(self) -> tuple[Breakpoint, ...]:
        """Return the breakpoints of all ranks, ordered by file and line, each once."""
        found = {one for told in self._by_rank.values() for one in told}
        return tuple(sorted(found, key=lambda one: (one.file, one.line, one.condition or "")))
