"""What keys mean at a line debugger, beyond editing a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from dbg_client.terminal.escape import COMMANDS, HELP


class Meant(Protocol):
    """Do what keys mean."""

    pending: bool

    def prefixed(self, key: str) -> None:
        """Do what the key behind the prefix means."""

    def interrupted(self) -> None:
        """Take Ctrl-C."""

    def ended(self) -> None:
        """Take Ctrl-D on an empty line."""

    def refused(self) -> None:
        """Take a key while this terminal may not type."""


def line_keys(meant: Meant, prefix: bytes | None, may_type: Callable[[], bool]) -> KeyBindings:
    """Return the keys; ``prefix`` is the byte of the escape key, None for no such key."""
    keys = KeyBindings()
    keys.add("c-c")(lambda event: meant.interrupted())
    keys.add("<sigint>")(lambda event: meant.interrupted())
    keys.add("escape", "enter", filter=Condition(may_type))(_break_line)
    keys.add("f4")(_toggle_editing)

    @keys.add("c-d")
    def _ended(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            meant.ended()

    _add_watching(keys, meant, ~Condition(may_type))
    if prefix is not None:
        _add_prefix(keys, meant, prefix)
    return keys


def _add_watching(keys: KeyBindings, meant: Meant, watching: Filter) -> None:
    for key in (Keys.Any, Keys.BracketedPaste, "enter", "backspace", "tab", "up", "down"):
        keys.add(key, filter=watching)(lambda event: meant.refused())


def _add_prefix(keys: KeyBindings, meant: Meant, prefix: bytes) -> None:
    """Bind the prefix and the key that follows, however late it comes."""
    pending = Condition(lambda: meant.pending)
    byte = prefix.decode("latin-1")
    key = ANSI_SEQUENCES.get(byte, byte)
    names = key if isinstance(key, tuple) else (key,)

    @keys.add(*names, filter=~pending, eager=True)
    def _begin(event: KeyPressEvent) -> None:
        meant.pending = True

    @keys.add(Keys.Any, filter=pending, eager=True)
    def _second(event: KeyPressEvent) -> None:
        meant.pending = False
        if event.data == byte or (event.data == "]" and event.key_sequence[-1].key == "]"):
            event.current_buffer.insert_text(byte)
        elif event.key_sequence[-1].key == Keys.BracketedPaste or event.data not in COMMANDS:
            meant.prefixed(HELP)
        else:
            meant.prefixed(event.data)


def _break_line(event: KeyPressEvent) -> None:
    event.current_buffer.newline(copy_margin=False)


def _toggle_editing(event: KeyPressEvent) -> None:
    app = event.app
    app.editing_mode = EditingMode.EMACS if app.editing_mode is EditingMode.VI else EditingMode.VI
