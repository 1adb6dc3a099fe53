"""Approval files: the product's sentences and screens as people have read and approved them.

A test gives its text to the fixture ``approved``, which compares it with a section of ``messages.txt`` of the package,
such as ``tests/unit/client/messages.txt``. ``make messages`` rewrites those files; the difference is then reviewed.
"""

from __future__ import annotations

from pathlib import Path

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
        """Write all sections, sorted by name."""
        written = "".join(f"{HEAD}{name}\n{escaped(text)}\n" for name, text in sorted(self.sections.items()))
        self.path.write_text(written)


def escaped(text: str) -> str:
    """Return the text with a backslash before each line that could be taken for the begin of a section."""
    return "\n".join("\\" + line if line.startswith((HEAD, "\\")) else line for line in text.split("\n"))


def package_folder(test: Path, root: Path) -> Path:
    """Return the folder of the approval file for a test below ``tests/unit``: that of its package."""
    return root / "unit" / test.relative_to(root / "unit").parts[0]
