"""The packages as they are: their modules and folders, and which folder imports which.

``python -m tests.support.packages`` draws the imports into ``docs/architecture.md``.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grimp

ROOT = Path(__file__).parents[2]

ARCHITECTURE = ROOT / "docs/architecture.md"

GENERATED = "_release.py"
"""The file that a build makes of the version."""

BEGIN, END = "<!-- drawn by `python -m tests.support.packages` -->\n", "<!-- end of the drawing -->\n"
"""Lines of that page between which the drawing stands."""

Arrows = Mapping[str, frozenset[str]]
"""For each name, the other names that it imports."""


@dataclass(frozen=True, order=True)
class Module:
    """A module, named by its package and its path inside the package."""

    package: str
    inside: Path

    @property
    def path(self) -> Path:
        """Return the path of the file."""
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
        """Return the parsed source."""
        return ast.parse(self.path.read_text())


@cache
def package_folders() -> dict[str, Path]:
    """Return the folder of each package, by the package's name."""
    return {path.parent.name: path.parent for path in sorted(ROOT.glob("[a-z]*/dbg_*/__init__.py"))}


@cache
def modules() -> tuple[Module, ...]:
    """Return all modules of all packages."""
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


@cache
def _graph() -> grimp.ImportGraph:
    import grimp

    graph = grimp.build_graph(*package_folders(), cache_dir=None)
    graph.remove_module(f"dbg_wire.{GENERATED.removesuffix('.py')}")
    return graph


def package_arrows() -> Arrows:
    """Return which package imports which."""
    return _arrows_between({package: package for package in package_folders()})


def folder_arrows(package: str) -> Arrows:
    """Return which folder or module at the top of a package imports which other one there."""
    return _arrows_between({child: child.rpartition(".")[2] for child in _graph().find_children(package)})


def _arrows_between(names: Mapping[str, str]) -> Arrows:
    """Return the arrows between packages or modules, with all modules below them; imports for types count."""
    arrows = {name: set[str]() for name in names.values()}
    for importer in _graph().modules:
        for imported in _graph().find_modules_directly_imported_by(importer):
            source, target = _name_above(importer, names), _name_above(imported, names)
            if source and target and source != target:
                arrows[source].add(target)
    return {name: frozenset(targets) for name, targets in arrows.items()}


def _name_above(module: str, names: Mapping[str, str]) -> str | None:
    parts = module.split(".")
    ancestors = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((names[ancestor] for ancestor in ancestors if ancestor in names), None)


def layers(arrows: Arrows) -> list[list[str]]:
    """Return the names in layers, each of which imports only layers below it; a circle of imports shares a layer."""
    reached = {name: _reached(name, arrows) for name in arrows}
    depth: dict[str, int] = {}
    for name in sorted(arrows, key=lambda name: (len(reached[name] | {name}), name)):
        below = [depth[other] for other in reached[name] if name not in reached[other]]
        depth[name] = max(below, default=-1) + 1
    found = defaultdict(list)
    for name in sorted(arrows):
        found[depth[name]].append(name)
    return [found[level] for level in sorted(found, reverse=True)]


def _reached(name: str, arrows: Arrows) -> frozenset[str]:
    seen: set[str] = set()
    open_names = [name]
    while open_names:
        for other in arrows[open_names.pop()] - seen:
            seen.add(other)
            open_names.append(other)
    return frozenset(seen)


def drawing() -> str:
    """Return the picture of the packages for the page on the architecture."""
    parts = ["packages", *_rows(package_arrows())]
    for package in package_folders():
        parts += ["", package, *_rows(folder_arrows(package))]
    return "\n".join(["```", *parts, "```", ""])


def _rows(arrows: Arrows) -> Iterator[str]:
    width = max(map(len, arrows))
    order = [name for layer in layers(arrows) for name in layer]
    for name in order:
        targets = " ".join(sorted(arrows[name], key=order.index))
        yield f"  {name:{width}}  {'→' if targets else ' '} {targets}".rstrip()


def main() -> None:
    """Draw the imports into the page."""
    before, _, rest = ARCHITECTURE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    ARCHITECTURE.write_text(f"{before}{BEGIN}{drawing()}{END}{after}")


if __name__ == "__main__":
    main()
