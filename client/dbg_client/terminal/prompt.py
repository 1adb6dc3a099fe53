"""The terminal as prompt_toolkit has it: typed bytes as key presses and back, the escape key, and what is drawn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import cast

from prompt_toolkit.filters import Condition
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

from dbg_client.shell.streams import silence
from dbg_client.terminal.recording import Recording

ESCAPE_SECONDS = 0.05
"""Seconds after which a lone Esc is the Esc key; the bytes of an arrow key come together."""


def key_presses(data: bytes) -> list[KeyPress]:
    """Return the keys that these bytes are."""
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed_and_flush(data.decode("utf-8", "surrogateescape"))
    return presses


def key_bytes(presses: Iterable[KeyPress]) -> bytes:
    """Return the bytes that these keys were typed as."""
    return "".join(press.data for press in presses).encode("utf-8", "surrogateescape")


class KeyInput(Vt100Input):
    """Standard input, whose keys are recorded if the session is."""

    def __init__(self, recording: Recording | None) -> None:
        super().__init__(sys.stdin)
        self._recording = recording

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have come."""
        keys = super().read_keys()
        if self._recording is not None:
            self._recording.typed("".join(press.data for press in keys))
        return keys


class LineOutput(Vt100_Output):
    """Write to a terminal without asking it where its cursor is.

    An answer would come among the keys, late or never, and drawing would wait for it. A terminal that has gone away
    raises nothing here: the reading of keys tells that it is gone.
    """

    recording: Recording | None = None
    """The recording of the session, if there is one."""

    def flush(self) -> None:
        """Write the buffered text, and record it."""
        if self.recording is not None:
            # A recording is played where no terminal driver returns to the begin of the line.
            self.recording.shown("".join(self._buffer).replace("\r\n", "\n").replace("\n", "\r\n"))
        try:
            super().flush()
        except BlockingIOError:
            return
        except OSError:
            silence(sys.stdout)  # what it still holds must not fail at the interpreter's exit

    @property
    def responds_to_cpr(self) -> bool:
        """Return False, so that the terminal is not asked."""
        return False

    def get_rows_below_cursor_position(self) -> int:
        """Return how many rows are there at least: the cursor's own."""
        return 1


def terminal_output(recording: Recording | None = None) -> LineOutput:
    """Return an output that draws a few rows where the terminal's cursor stands."""
    output = cast(LineOutput, LineOutput.from_pty(sys.stdout, term=os.environ.get("TERM")))
    output.recording = recording
    return output


class PrefixKey:
    """The escape key and the key behind it, however late that comes; ``prefix`` is its byte, None for no such key."""

    def __init__(self, prefix: bytes | None) -> None:
        self.prefix = prefix
        self.pending = False

    def bind(self, keys: KeyBindings, second: Callable[[KeyPressEvent], None]) -> None:
        """Have ``second`` called with the key that follows the escape key."""
        if self.prefix is None:
            return
        byte = self.prefix.decode("latin-1")
        key = ANSI_SEQUENCES.get(byte, byte)
        is_pending = Condition(lambda: self.pending)

        @keys.add(*(key if isinstance(key, tuple) else (key,)), eager=True, filter=~is_pending)
        def _begin(event: KeyPressEvent) -> None:
            self.pending = True

        @keys.add(Keys.Any, eager=True, filter=is_pending)
        def _second(event: KeyPressEvent) -> None:
            self.pending = False
            second(event)

    def bind_for_session(self, keys: KeyBindings, leave: Callable[[KeyPressEvent, bytes], None]) -> None:
        """Have ``leave`` called with both keys, which are for the session; the escape key twice means nothing."""

        def second(event: KeyPressEvent) -> None:
            if len(event.data) == 1 and event.data.isprintable() and event.data != "]":
                leave(event, (self.prefix or b"") + event.data.encode())

        self.bind(keys, second)
