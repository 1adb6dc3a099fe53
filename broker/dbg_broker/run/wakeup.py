"""Signals as a descriptor to wait at beside others."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


class Wakeup:
    """Descriptor that is readable once a signal came, while the ``with`` block runs."""

    def __init__(self, handlers: Mapping[signal.Signals, Handler]) -> None:
        self._handlers: dict[signal.Signals, Handler] = {**handlers, signal.SIGCHLD: _end_the_wait}
        self._former: dict[signal.Signals, signal._HANDLER] = {}
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor to wait at."""
        return self._read_end

    def drain(self) -> None:
        """Forget the signals that came."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 512):
                pass

    def __enter__(self) -> Wakeup:
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number, handler in self._handlers.items():
            # Under nohup SIGHUP is ignored, and stays so.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, handler)
        # A child that ended before there was a handler has sent no signal, so the first wait ends at once.
        os.write(self._write_end, b"0")
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)
        signal.set_wakeup_fd(-1)
        os.close(self._read_end)
        os.close(self._write_end)


def _end_the_wait(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; without a handler a signal would not be noted at all."""
