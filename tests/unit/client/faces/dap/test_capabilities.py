"""What a client says of itself when it begins."""

from __future__ import annotations

import pytest

from dbg_client.faces.dap.messages import MAX_NAME, Client


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"clientName": "Visual Studio Code", "clientID": "vscode"}, "VS Code"),
        ({"clientID": "nvim-dap"}, "nvim-dap"),
        ({"clientName": "evil\x1b[2J"}, "evil\\x1b[2J"),
        ({"clientName": 5}, "IDE"),
        ({"clientName": "  "}, "IDE"),
        ({}, "IDE"),
    ],
)
def test_the_name_is_what_people_call_it_and_safe_to_print(said: dict[str, object], name: str) -> None:
    assert Client.read(said).name == name


def test_a_name_is_short() -> None:
    assert len(Client.read({"clientName": "x" * 1000}).name) <= MAX_NAME + len("…")


def test_lines_and_columns_count_from_one_unless_the_client_says_otherwise() -> None:
    usual = Client.read({})
    assert (usual.first_line, usual.first_column, usual.knows_invalidated) == (1, 1, False)
    other = Client.read({"linesStartAt1": False, "columnsStartAt1": False, "supportsInvalidatedEvent": True})
    assert (other.first_line, other.first_column, other.knows_invalidated) == (0, 0, True)
