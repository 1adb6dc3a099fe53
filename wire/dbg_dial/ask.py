"""A token that the user types or pastes, without an echo, and that is kept nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from dbg_wire.errors import NeedsAnswer

TERMINAL = "/dev/tty"


def ask_secret(prompt: str) -> str:
    """Return what the user types at the terminal, without the end of the line. Raise NeedsAnswer without a terminal."""
    import getpass  # hardly any command asks

    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
        return getpass.getpass(prompt).strip()
    except (OSError, EOFError):
        raise NeedsAnswer("the token is asked for on the terminal, and there is none", "set DBG_TOKEN_FILE") from None


def show_secret(text: str) -> None:
    """Write a line to the terminal itself, so that no log of stdout holds it. Raise NeedsAnswer without a terminal."""
    try:
        with Path(TERMINAL).open("w", encoding="utf-8") as terminal:
            terminal.write(f"{text}\n")
    except OSError:
        raise NeedsAnswer("the token is shown on the terminal alone, and there is none", "start it at one") from None
