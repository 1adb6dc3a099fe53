"""Values of tensors on their devices, which are read without a wait: one copy per step, mostly read one step later."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

MAX_TENSORS = 100_000
"""Maximum number of tensors of one step. A program without an optimizer never ends a step, and must not fill memory."""


Measured = tuple[Any, list[Any]]
"""Key of a tensor, and its values on the host."""


_Copy = tuple[list[tuple[list[Any], int]], Any, Any]
"""Copy of the values of one device and dtype: for each value a row and an index; the values; the event at its end."""


class LateValues:
    """The values of the current step, and copies of those of earlier steps."""

    def __init__(self) -> None:
        self._rows: list[Measured] = []
        self._steps: list[tuple[int, list[Measured], list[_Copy]]] = []

    def add(self, key: Any, *values: Any) -> None:
        """Add values of a tensor: tensors of 0 dimensions, which are still on their device."""
        if len(self._rows) < MAX_TENSORS:
            self._rows.append((key, list(values)))

    def read(self, step: int) -> Iterator[tuple[int, list[Measured]]]:
        """End this step and start the copy of its values. Yield the steps with all values, the oldest one first."""
        self._steps.append((step, self._rows, list(_copies(self._rows))))
        self._rows = []
        while self._steps and all(event is None or event.query() for *_, event in self._steps[0][-1]):
            number, rows, copies = self._steps.pop(0)
            for places, host, _ in copies:
                for (row, index), value in zip(places, host.tolist(), strict=True):
                    row[index] = value
            yield number, rows


def _copies(rows: list[Measured]) -> Iterator[_Copy]:
    torch: Any = sys.modules["torch"]
    places: defaultdict[tuple[Any, Any], list[tuple[list[Any], int]]] = defaultdict(list)
    for _, row in rows:
        for index, value in enumerate(row):
            places[value.device, value.dtype].append((row, index))
    for (device, _), group in places.items():
        # From a GPU, torch copies into pinned memory, and does not wait.
        host = torch.stack([row[index] for row, index in group]).to("cpu", non_blocking=True)
        event = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
        yield group, host, event
