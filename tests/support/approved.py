"""Approval files: the product's sentences and screens as people have read and approved them.

A test gives its text to the fixture ``approved``, which compares it with a section of ``messages.txt`` of the package,
such as ``tests/unit/client/messages.txt``. ``make messages`` rewrites those files; the difference is then reviewed.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

PLACES = (
    (re.compile(re.escape(str(Path(__file__).parents[2]))), "<project>"),
    (re.compile(r"/tmp/[\w.-]*(?:/(?:pytest-\d+|popen-gw\d+|[\w.-]+?\d+))*(?=[/\s'\"`:;,)]|$)"), "<tmp>"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+"), "<port>"),
    (re.compile(r"(?<=pid )\d+|(?<=process )\d+|(?<=/proc/)\d+"), "<pid>"),
    (re.compile(r"(?<=/dev/pts/)\d+"), "<number>"),
    (re.compile(r"(?<=belongs to user )\d+"), "<user>"),
    (re.compile(r"\b0x[0-9a-f]{6,}"), "<address>"),
    (re.compile(rf"\b{re.escape(socket.gethostname())}\b"), "<host>"),
    (re.compile(" or the system clock is incorrect"), ""),  # OpenSSL's from 3.6 on
)
"""Parts of a text that differ from run to run, and their stand-ins."""

HEAD = "== "
"""Begin of the line that names a section. A line of a text that begins so, or with a backslash, gets a backslash."""


class ApprovalFile:
    """One ``messages.txt``: texts by the names of their sections."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sections: dict[str, str] = {}
        lines = path.read_text().removesuffix("\n").split("\n") if path.exists() else []
        name: str | None = None
        for line in lines:
            if line.startswith(HEAD):
                name = line.removeprefix(HEAD)
                self.sections[name] = ""
            elif name is not None:
                self.sections[name] += line.removeprefix("\\") + "\n"
        self.sections = {name: text.removesuffix("\n") for name, text in self.sections.items()}

    def write(self) -> None:
        written = "".join(f"{HEAD}{name}\n{escaped(text)}\n" for name, text in sorted(self.sections.items()))
        self.path.write_text(written)


def escaped(text: str) -> str:
    """Return the text with a backslash before each line that could be taken for the begin of a section."""
    return "\n".join("\\" + line if line.startswith((HEAD, "\\")) else line for line in text.split("\n"))


def package_folder(test: Path, root: Path) -> Path:
    """Return the folder of the approval file of a test: that of the unit tests of its package."""
    return root / "unit" / test.relative_to(root).parts[1]


def without_places(text: str) -> str:
    """Return a text with stand-ins for folders, ports, process numbers and addresses of this run."""
    for pattern, stand_in in PLACES:
        text = pattern.sub(stand_in, text)
    return text


def as_text(value: object) -> str:
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return value if isinstance(value, str) else repr(value)
