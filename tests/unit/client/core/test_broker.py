"""By what name other users see the programs of a user."""

from __future__ import annotations

import pytest

from dbg_client.core.switchboard import MAX_PROGRAM, person_name
from dbg_dial.kernel import user_name


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("Python", "Python"),
        ("  claude\tcode\n", r"claude\tcode"),
        ("\x1b]0;x\x07\u202e", r"\x1b]0;x\x07\u202e"),
        ("a" * 1000, "a" * MAX_PROGRAM + "…"),
    ],
)
def test_a_program_stands_behind_its_user(program: str, shown: str) -> None:
    assert person_name(program) == f"{user_name()} ({shown})"


def test_a_terminal_has_its_users_name_alone() -> None:
    assert person_name("") == person_name(" ") == user_name()
