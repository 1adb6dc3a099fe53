"""Python's collection of cyclic garbage, at moments and in portions that nobody feels.

A collection of all objects goes through everything that the broker knows: with ten thousand ranks it takes a fifth of a
second, in which no key is passed on, and Python begins one when it sees fit. Here what has survived a collection is set
aside, so that the next one goes through newer objects alone. All objects are gone through when nobody types.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

TICK_SECONDS = 0.25
"""Seconds between two looks: in a flood, objects of this time are gone through in five milliseconds."""

WHOLE_SECONDS = 600.0
"""Seconds after which all objects are gone through, as soon as nobody types."""

WHOLE_AT_LATEST_SECONDS = 6 * 3600.0
"""Seconds after which they are gone through in any case: what is left over until then is some KiB a connection."""

NEVER = 1_000_000
"""Collections of young objects after which Python itself would begin one of all."""


class GarbageCollection:
    """The collection of garbage of this process; ``types`` tells whether a terminal is at a rank to type there."""

    def __init__(
        self,
        types: Callable[[], bool],
        clock: Callable[[], float],
        schedule: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._types, self._clock, self._schedule = types, clock, schedule
        self._whole_at = clock()

    def begin(self) -> None:
        """Set aside what there is, and look again and again."""
        young, older, _ = gc.get_threshold()
        gc.set_threshold(young, older, NEVER)
        gc.collect()
        gc.freeze()
        self._schedule(TICK_SECONDS, self._look)

    def _look(self) -> None:
        since = self._clock() - self._whole_at
        if since >= WHOLE_AT_LATEST_SECONDS or (since >= WHOLE_SECONDS and not self._types()):
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._whole_at = self._clock()
        elif gc.get_count()[2]:
            gc.collect()
            gc.freeze()
        self._schedule(TICK_SECONDS, self._look)
