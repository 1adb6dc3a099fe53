"""Values of tensors on their devices, which are read without a wait: one copy per step, mostly read one step later."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

MAX_TENSORS = 100_000
"""Maximum number of tensors of one step. A program without an optimizer never ends a step, and must not fill memory."""


Measured = tuple[Any, list[Any]]
"""Key of a tensor, and its values on the host."""


class _Copy:
    """A copy of values of one device and dtype to the host that is under way."""

    def __init__(self, places: list[tuple[list[Any], int]], values: Any) -> None:
        self._places = places
        torch: Any = sys.modules["torch"]
        if values.is_cuda:
            self._host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._host.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(values.device))
        else:
            self._host, self._event = values.cpu(), None

    @property
    def is_done(self) -> bool:
        """Whether the values have arrived."""
        return self._event is None or bool(self._event.query())

    def write(self) -> None:
        """Write the values to their places, each of which is a list and an index."""
        for (row, index), value in zip(self._places, self._host.tolist(), strict=True):
            row[index] = value


class LateValues:
    """The values of the current step, and copies of those of earlier steps."""

    def __init__(self) -> None:
        self._rows: list[Measured] = []
        self._added: defaultdict[tuple[Any, Any], list[tuple[tuple[list[Any], int], Any]]] = defaultdict(list)
        self._steps: list[tuple[int, list[Measured], list[_Copy]]] = []

    def add(self, key: Any, *values: Any) -> None:
        """Add values of a tensor: tensors of 0 dimensions, which are still on their device."""
        if len(self._rows) < MAX_TENSORS:
            row = list(values)
            self._rows.append((key, row))
            for index, value in enumerate(values):
                self._added[value.device, value.dtype].append(((row, index), value))

    def read(self, step: int) -> list[tuple[int, list[Measured]]]:
        """End this step and start the copy of its values. Return the steps with all values, the oldest one first."""
        torch: Any = sys.modules["torch"]
        groups = [list(zip(*added, strict=True)) for added in self._added.values()]
        self._steps.append((step, self._rows, [_Copy(list(places), torch.stack(values)) for places, values in groups]))
        self._rows, self._added = [], defaultdict(list)
        ready: list[tuple[int, list[Measured]]] = []
        while self._steps and all(copy.is_done for copy in self._steps[0][-1]):
            number, rows, copies = self._steps.pop(0)
            for copy in copies:
                copy.write()
            ready.append((number, rows))
        return ready
