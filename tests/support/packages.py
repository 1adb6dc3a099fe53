"""The packages as they are: their modules and folders, and which folder imports which.

``python -m tests.support.packages`` draws the imports into ``docs/architecture.md``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

ARCHITECTURE = ROOT / "docs/architecture.md"
THREADS = ROOT / "docs/threads.md"

GENERATED = "_release.py"
"""The file that a build makes of the version."""

BEGIN, END = "<!-- drawn by `python -m tests.support.packages` -->\n", "<!-- end of the drawing -->\n"
"""Lines of that page between which the drawing stands."""


@dataclass(frozen=True, order=True)
class Module:
    """A module, named by its package and its path inside the package."""

    package: str
    inside: Path

    @property
    def path(self) -> Path:
        return package_folders()[self.package] / self.inside

    @property
    def short(self) -> str:
        """Return the file as documents call it, such as ``agent/link/link.py``."""
        return f"{self.package.removeprefix('dbg_')}/{self.inside.as_posix()}"

    @property
    def place(self) -> str:
        """Return the path of the file from the root, such as ``agent/dbg_agent/link/link.py``."""
        return self.path.relative_to(ROOT).as_posix()

    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text())


@cache
def package_folders() -> dict[str, Path]:
    return {path.parent.name: path.parent for path in sorted(ROOT.glob("[a-z]*/dbg_*/__init__.py"))}


@cache
def modules() -> tuple[Module, ...]:
    return tuple(
        Module(package, path.relative_to(folder))
        for package, folder in package_folders().items()
        for path in sorted(folder.rglob("*.py"))
        if path.name != GENERATED
    )


def parsed(*words: str) -> Iterator[tuple[Module, ast.Module]]:
    """Yield each module in whose text one of these words stands, parsed: to parse all takes seconds."""
    any_word = re.compile("|".join(map(re.escape, words)))
    for module in modules():
        text = module.path.read_text()
        if any_word.search(text):
            yield module, ast.parse(text)


Arrows = Mapping[str, frozenset[str]]
"""For each name, the other names that it imports, imports for types included."""


def _arrows(*packages: str) -> Arrows:
    """Return which of these packages imports which, or of a single one which folder or module at its top."""
    import grimp

    graph = grimp.build_graph(*packages, cache_dir=None)
    names = {*packages} if len(packages) > 1 else graph.find_children(packages[0]) - {"dbg_wire._release"}
    for name in names:
        graph.squash_module(name)
    return {name: frozenset(graph.find_modules_directly_imported_by(name) & names - {name}) for name in names}


def _in_layers(arrows: Arrows) -> list[str]:
    """Return the names such that each imports only later ones; those of a circle of imports are together."""
    reached = {name: set(targets) for name, targets in arrows.items()}
    for middle in arrows:
        for name in arrows:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    depth: dict[str, int] = {}
    for name in sorted(reached, key=lambda name: (len(reached[name] | {name}), name)):
        below = [depth[other] for other in reached[name] if name not in reached[other]]
        depth[name] = max(below, default=-1) + 1
    return sorted(depth, key=lambda name: (-depth[name], name))


def drawing() -> str:
    parts = ["packages", *_rows(_arrows(*package_folders()))]
    for package in package_folders():
        parts += ["", package, *_rows(_arrows(package))]
    return "\n".join(["```", *parts, "```", ""])


def _rows(arrows: Arrows) -> Iterator[str]:
    order = _in_layers(arrows)
    short = {name: name.rpartition(".")[2] for name in order}
    width = max(map(len, short.values()))
    for name in order:
        targets = [short[target] for target in order if target in arrows[name]]
        yield f"  {short[name]:{width}}  {'→' if targets else ' '} {' '.join(targets)}".rstrip()


def main() -> None:
    before, _, rest = ARCHITECTURE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    ARCHITECTURE.write_text(f"{before}{BEGIN}{drawing()}{END}{after}")


if __name__ == "__main__":
    main()
