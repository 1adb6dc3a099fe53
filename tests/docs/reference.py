"""The reference of the commands, made of what their ``--help`` says: ``python -m tests.docs.reference`` writes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dbg_broker.cli.parser import parser_of_the_command, verbs_of
from dbg_client.verbs.table import VERBS
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/commands.md"

HEAD = """\
# Commands

**Which options are there?** This page is what `--help` of each command and verb prints. It is made by
`python -m tests.docs.reference`.
"""

SECTIONS = (
    ("dbg-attach", ["dbg-attach", "--help"]),
    *((f"dbg-attach {row.name}", ["dbg-attach", row.name, "--help"]) for row in VERBS),
    ("dbg-broker", ["dbg-broker", "--help"]),
    *((f"dbg-broker {verb}", ["dbg-broker", verb, "--help"]) for verb in verbs_of(parser_of_the_command())),
    ("python -m dbg_agent", ["python", "-m", "dbg_agent", "--help"]),
)


def help_of(command: list[str]) -> str:
    """Return what a command that helps prints on a terminal of 100 columns."""
    program = str(Path(sys.executable).with_name(command[0]))
    result = subprocess.run(
        [program, *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    return result.stdout or result.stderr


def text() -> str:
    """Return the page."""
    return HEAD + "".join(
        f"\n## `{title}`\n\n```text\n{help_of(command).strip()}\n```\n" for title, command in SECTIONS
    )


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
