"""What those see of a rank who have the calling thread of the program stopped."""

from __future__ import annotations

from types import FrameType
from typing import Protocol


class ThreadStopper(Protocol):
    """Stop the calling thread."""

    def stop(self, frame: FrameType, reason: str, *, detail: str = "") -> None:
        """Stop the calling thread at this frame until it is let go."""

    def end_step(self) -> None:
        """End the stop of the calling thread if it steps: what it steps through is over."""
