"""A terminal with a user's own settings, and the check that a program has restored them all."""

from __future__ import annotations

from pathlib import Path

from tests.support.terminal import Terminal

USUAL_MODES = frozenset({7, 25})
"""Private modes that are on in every new terminal: wrapping, and a visible cursor."""

SHELL = 'trap : INT; stty erase ^H -ixon; stty -g >"$0/before"; "$@"; status=$?; stty -g >"$0/after"; exit $status'
"""Shell code that chooses unusual terminal settings, and saves them before and after a command."""


def with_own_settings(folder: Path, command: list[str]) -> list[str]:
    """Return ``command`` for a terminal with unusual settings; ``folder`` gets the settings before and after."""
    return ["sh", "-c", SHELL, str(folder), *command]


def assert_given_back(terminal: Terminal, folder: Path) -> None:
    """Fail unless the ended command left settings, screen, modes and cursor as they were."""
    before, after = (folder / "before").read_text(), (folder / "after").read_text()
    assert before == after
    assert terminal.virtual.private_modes <= USUAL_MODES, terminal.virtual.private_modes
    assert not terminal.virtual.cursor_hidden
    assert terminal.output.count(b"\x1b[>u") == terminal.output.count(b"\x1b[<u")
    assert not any("PuDB 2" in row or "Variables:" in row for row in terminal.screen), terminal.dump()
