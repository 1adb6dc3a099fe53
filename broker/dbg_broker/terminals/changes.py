"""What of the list of ranks is still to be sent to one terminal.

Pure. A subscriber gets the snapshot first, then every change, with no gap between. Only keys wait here: the state of a
rank is looked up when the terminal can take it. A slow terminal then costs a key for each rank at most, and gets the
last state of each rank instead of all states.
"""

from __future__ import annotations

from collections.abc import Iterable


class PendingChanges:
    """The keys of ranks that wait for one subscriber, or for a terminal that follows a single rank."""

    def __init__(self) -> None:
        self._snapshot: list[str] = []
        self._in_snapshot = False
        self._changed: dict[str, None] = {}
        self.subscribed = False

    def subscribe(self, keys: Iterable[str], *, once: bool) -> None:
        """Begin a snapshot of these ranks; unless ``once`` changes follow it, in place of an earlier subscription."""
        # Reversed, as taking from the end of a list is cheap.
        self._snapshot = list(keys)[::-1]
        self._in_snapshot = True
        self.subscribed = not once
        if self.subscribed:
            self._changed.clear()

    def add(self, key: str) -> None:
        """Note that a rank changed, or is gone."""
        self._changed[key] = None

    @property
    def has_snapshot(self) -> bool:
        """Tell whether a page of a snapshot is next."""
        return self._in_snapshot

    def next_listed(self) -> str | None:
        """Return the next rank of the snapshot, or None after the last one."""
        return self._snapshot.pop() if self._snapshot else None

    def end_page(self) -> bool:
        """End a page of the snapshot, and tell whether it was the last one."""
        self._in_snapshot = bool(self._snapshot)
        return not self._in_snapshot

    def change(self) -> str | None:
        """Return a rank to tell of, or None; none before the snapshot is complete."""
        if self._in_snapshot or not self._changed:
            return None
        key = next(iter(self._changed))
        del self._changed[key]
        return key
