"""Flags of wrong tensors on a device, which are read without a wait: one copy per step, read after the next step."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

MAX_FLAGS = 100_000
"""Maximum number of tensors of one step. A program without an optimizer never ends a step, and must not fill memory."""


class _Copy:
    """A copy of one device's flags to the host that is under way."""

    def __init__(self, keys: list[Any], flags: Any) -> None:
        self.keys = keys
        torch: Any = sys.modules["torch"]
        if flags.is_cuda:
            self._host = torch.empty(flags.shape, dtype=flags.dtype, pin_memory=True)
            self._host.copy_(flags, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(flags.device))
        else:
            self._host, self._event = flags.cpu(), None

    @property
    def is_done(self) -> bool:
        """Whether the flags have arrived."""
        return self._event is None or bool(self._event.query())

    def wrong(self) -> list[Any]:
        """Return the keys of the wrong tensors."""
        return [key for key, is_wrong in zip(self.keys, self._host.tolist(), strict=True) if is_wrong]


class LateFlags:
    """The flags of the current step, and copies of those of earlier steps."""

    def __init__(self) -> None:
        self._added: defaultdict[tuple[Any, Any], list[tuple[Any, Any, Any]]] = defaultdict(list)
        self._count = 0
        self._copies: list[_Copy] = []

    def add(self, key: Any, low: Any, high: Any) -> None:
        """Add the extremes of a tensor, which are still on its device."""
        if self._count < MAX_FLAGS:
            self._count += 1
            self._added[low.device, low.dtype].append((key, low, high))

    def read(self) -> list[Any]:
        """Start the copy of this step's flags. Return the keys of wrong tensors of earlier steps, in their order."""
        torch: Any = sys.modules["torch"]
        wrong: list[Any] = []
        waiting: list[_Copy] = []
        for copy in self._copies:
            if copy.is_done:
                wrong += copy.wrong()
            else:
                waiting.append(copy)
        added, self._added, self._count = self._added, defaultdict(list), 0
        for rows in added.values():
            extremes = torch.stack([torch.stack([low, high]) for _, low, high in rows])
            waiting.append(_Copy([key for key, _, _ in rows], ~torch.isfinite(extremes).all(dim=1)))
        self._copies = waiting
        return wrong
