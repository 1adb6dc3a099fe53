"""The interface by which other parts stop the calling thread of the program."""

from __future__ import annotations

from types import FrameType
from typing import Protocol


class ThreadStopper(Protocol):
    """An object that stops the calling thread."""

    def stop(self, frame: FrameType, reason: str, *, detail: str = "") -> None:
        """Stop the calling thread at this frame until it is let go."""

    def end_step(self) -> None:
        """End the stop of the calling thread if it steps: the code that it steps through is over."""
