"""The port of --dap, and what goes with it."""

from __future__ import annotations

import pytest

from dbg_client.words.arguments import read_arguments
from dbg_client.words.settings import CommandSettings, Verb, settle
from dbg_wire.errors import BadInput


def settings(line: str) -> CommandSettings:
    """Return what a command line means."""
    return settle(read_arguments(line.split()), {}, stdout_is_tty=False)


@pytest.mark.parametrize(
    ("line", "target", "port"),
    [
        ("dap", None, None),
        ("dap train/all", "train/all", None),
        ("train/all --dap", "train/all", 0),
        ("--dap train/all", "train/all", 0),
        ("dap 0-7 --dap 5678", "0-7", 5678),
        ("all --dap 5678", "all", 5678),
        ("--dap 5678", None, 5678),
    ],
)
def test_target_and_port_are_told_apart(line: str, target: str | None, port: int | None) -> None:
    found = settings(line)
    assert (found.verb, found.target, found.port) == (Verb.DAP, target, port)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("dap --no-secret", "--no-secret is for a port"),
        ("all --dap 70000", "is no port"),
        ("all --dap 0-7", "is no port"),
        ("all --dap --vscode", "give one of them"),
        ("all --vscode", "--vscode is for dap"),
        ("list all --dap", "two actions"),
        ("dap all --wait", "--wait waits for one stop"),
    ],
)
def test_what_contradicts_itself_is_refused(line: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        settings(line)
