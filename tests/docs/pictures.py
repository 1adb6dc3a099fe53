"""The screenshot of the documentation, made from a run: ``scripts/make-screenshots`` writes it.

A terminal is driven as a user would, from a hang to PuDB. The picture is what its screen shows then, as SVG.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import groupby
from pathlib import Path

from tests.docs import page_picture
from tests.docs.pages import ROOT
from tests.docs.scenes import COLUMNS, SCENES, Stage
from tests.support.environment import clean_environment, is_foreign
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.screen import Cell, VirtualScreen
from tests.support.terminal import Expected, Terminal

SCREENSHOT = ROOT / "docs/images/pudb.svg"
ROWS = 30
CELL_WIDTH, CELL_HEIGHT, LEFT = 8, 17, 10
WORDS = re.compile(r"\S+(?: \S+)*")
BACKGROUND, FOREGROUND = "#1e1e1e", "#d4d4d4"
COLOURS = {
    "black": "#1e1e1e",
    "red": "#cd3131",
    "green": "#0dbc79",
    "brown": "#c5a332",
    "blue": "#2472c8",
    "magenta": "#bc3fbc",
    "cyan": "#11a8cd",
    "white": "#e5e5e5",
    "brightblack": "#666666",
    "brightred": "#f14c4c",
    "brightgreen": "#23d18b",
    "brightbrown": "#f5f543",
    "brightblue": "#3b8eea",
    "brightmagenta": "#d670d6",
    "brightcyan": "#29b8db",
    "brightwhite": "#ffffff",
}


def record(stage: Stage) -> tuple[str, list[str]]:
    """Drive a terminal from a hang to PuDB; return the picture of its screen, and the rows."""
    environ = {**stage.variables, "HOME": str(stage.home), "PS1": "$ ", "HISTFILE": "/dev/null"}
    with stage.open(["bash", "--norc", "--noprofile", "-i"], environ, ROWS) as terminal:
        terminal.wait_for("$")
        terminal.send("dbg-attach where all\r")
        terminal.wait_for(_answered("odd one out"))
        terminal.send("dbg-attach interrupt @2\r")
        terminal.wait_for(_at_pudb)
        return draw(terminal.virtual), terminal.screen


def _answered(text: str) -> Expected:
    """Return what tells that a text is there, and the shell's prompt below it."""

    def is_there(terminal: Terminal) -> bool:
        shown = [row for row in terminal.screen if row]
        return any(text in row for row in shown) and shown[-1] == "$"

    return is_there


def _at_pudb(terminal: Terminal) -> bool:
    """Tell whether PuDB is drawn to its last row, its stack included, and the status line below it."""
    text = "\n".join(terminal.screen)
    drawn = all(part in text for part in (DRAWN, ">> wait_for_shard", "< Clear"))
    return drawn and terminal.row(-1).startswith(" gpu013:2  stopped")


def draw(screen: VirtualScreen) -> str:
    """Return the screen as SVG."""
    width, height = COLUMNS * CELL_WIDTH + 20, ROWS * CELL_HEIGHT + 20
    parts = [part for number in range(ROWS) for part in _row(screen.cells(number), LEFT + number * CELL_HEIGHT)]
    style = "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
            'role="img" aria-label="PuDB in rank 2">',
            f"<style>{style}</style>",
            f'<rect width="{width}" height="{height}" rx="6" fill="{BACKGROUND}"/>',
            '<g shape-rendering="crispEdges">',
            *parts,
            "</g>",
            "</svg>\n",
        ]
    )


def _row(cells: Sequence[Cell], top: int) -> Iterator[str]:
    """Yield the paper of a row and its text, word by word: renderers differ in what they do to several blanks."""
    column = 0
    texts = []
    for (ink, paper, bold), run in groupby(cells, key=_look):
        text = "".join(cell.data for cell in run)
        if paper != BACKGROUND:
            left, width = LEFT + column * CELL_WIDTH, len(text) * CELL_WIDTH
            yield f'<rect x="{left}" y="{top}" width="{width}" height="{CELL_HEIGHT}" fill="{paper}"/>'
        weight = ' font-weight="bold"' if bold else ""
        for words in WORDS.finditer(text):
            left, width = LEFT + (column + words.start()) * CELL_WIDTH, len(words.group()) * CELL_WIDTH
            shown = escape(words.group(), quote=False)
            texts.append(f'<tspan x="{left}" textLength="{width}" fill="{ink}"{weight}>{shown}</tspan>')
        column += len(text)
    yield f'<text y="{top + 13}">{"".join(texts)}</text>'


def _look(cell: Cell) -> tuple[str, str, bool]:
    ink, paper = _colour(cell.fg, FOREGROUND), _colour(cell.bg, BACKGROUND)
    return (paper, ink, cell.bold) if cell.reverse else (ink, paper, cell.bold)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return COLOURS.get(name, f"#{name}")


def text_of(svg: str) -> list[str]:
    """Return the text of each row of a picture."""
    rows = []
    for row in re.findall(r"<text [^>]*>(.*)</text>", svg):
        shown = ""
        for left, words in re.findall(r'<tspan x="(\d+)"[^>]*>(.*?)</tspan>', row):
            shown = shown.ljust((int(left) - LEFT) // CELL_WIDTH) + unescape(words)
        rows.append(shown)
    return rows


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in os.environ if is_foreign(name)]:
            del os.environ[name]
        os.environ.update(clean_environment(os.environ, Path(folder)))
        processes = Processes(Path(folder, "logs"))
        try:
            svg, _ = record(Stage(processes, SCENES["hang"], Path(folder)))
            home = Path(folder, "page")
            home.mkdir(mode=0o700)
            page_picture.take(processes, home, page_picture.PICTURE)
        finally:
            processes.end_all()
    SCREENSHOT.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
