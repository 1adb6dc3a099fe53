"""The screenshot and the recording of the documentation, made from a run: ``scripts/make-screenshots`` writes them.

A terminal is driven as a user would, from a hang to PuDB and out again. The picture is what its screen shows while PuDB
is open, as SVG; the recording is what the terminal was sent, as asciicast version 2, with times that one can follow.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import groupby
from pathlib import Path

from tests.docs import page_picture
from tests.docs.pages import ROOT
from tests.docs.scenes import COLUMNS, SCENES, SHOWN_DIRECTORY, Stage
from tests.support.environment import clean_environment, is_foreign
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.screen import Cell, VirtualScreen
from tests.support.sessions import DETACH
from tests.support.terminal import Expected, Terminal

SCREENSHOT = ROOT / "docs/images/pudb.svg"
RECORDING = ROOT / "docs/images/hang.cast"
EMBEDDED = ROOT / "docs/assets/recordings.js"
"""The recording once more, as a page that was opened from the disk can read it."""

ROWS = 30
KEY_SECONDS, ANSWER_SECONDS, READING_SECONDS = 0.06, 0.5, 3.0

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


@dataclass
class Recorder:
    """What a terminal was sent, in pieces, each with the second at which it is shown."""

    terminal: Terminal
    hidden: str
    events: list[tuple[float, str]] = field(default_factory=list)
    _seconds: float = 0.5
    _taken: int = 0
    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))

    def type(self, line: str) -> None:
        """Type a line at the shell's prompt, key by key, without its end."""
        self.terminal.send(line)
        self.terminal.wait_for(f"$ {line}")
        for key in self._new():
            self._add(KEY_SECONDS, key)

    def press(self, keys: bytes, until: Expected) -> None:
        """Press keys, wait for what follows, and leave time to read it."""
        self.terminal.send(keys)
        self.terminal.wait_for(until)
        self._add(ANSWER_SECONDS, self._new())
        self._seconds += READING_SECONDS

    def _new(self) -> str:
        data = bytes(self.terminal.output[self._taken :])
        self._taken += len(data)
        return self._decoder.decode(data).replace(self.hidden, SHOWN_DIRECTORY)

    def _add(self, pause: float, text: str) -> None:
        self._seconds += pause
        self.events.append((round(self._seconds, 2), text))


@dataclass(frozen=True, slots=True)
class Take:
    """The results of one run: the picture, the recording, and the texts of the screens."""

    svg: str
    cast: str
    pudb: list[str]
    end: list[str]


def record(stage: Stage) -> Take:
    """Drive a terminal from a hang to PuDB and out again."""
    environ = {**stage.variables, "HOME": str(stage.home), "PS1": "$ ", "HISTFILE": "/dev/null"}
    with stage.open(["bash", "--norc", "--noprofile", "-i"], environ, ROWS) as terminal:
        terminal.wait_for("$")
        recorder = Recorder(terminal, str(stage.folder))
        recorder.type("dbg-attach where all")
        recorder.press(b"\r", _answered("odd one out"))
        recorder.type("dbg-attach interrupt @2")
        recorder.press(b"\r", _at_pudb)
        svg, pudb = draw(terminal.virtual), terminal.screen
        recorder.press(b"u", ">> next_batch")
        recorder.press(DETACH, _answered("etached"))
        recorder.type("dbg-attach list")
        recorder.press(b"\r", _answered("stopped (interrupt)"))
        return Take(svg, _cast(recorder.events), pudb, terminal.screen)


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


def _cast(events: Sequence[tuple[float, str]]) -> str:
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "env": {"TERM": "xterm-256color"}, "title": "A hang"}
    lines = [header, *([at, "o", text] for at, text in events)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


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


def screens(cast: str) -> Iterator[list[str]]:
    """Yield what a recording shows after each of its pieces."""
    header, *events = (json.loads(line) for line in cast.splitlines())
    screen = VirtualScreen(header["height"], header["width"])
    for _, _, text in events:
        screen.feed(text.encode())
        yield screen.rows


def embedded(cast: str) -> str:
    """Return the script that holds the recording for the site's player."""
    return f"window.RECORDINGS = {{ hang: {json.dumps(cast, ensure_ascii=False)} }};\n"


def main() -> None:
    """Write the pictures and the recording."""
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in os.environ if is_foreign(name)]:
            del os.environ[name]
        os.environ.update(clean_environment(os.environ, Path(folder)))
        processes = Processes(Path(folder, "logs"))
        try:
            taken = record(Stage(processes, SCENES["hang"], Path(folder)))
            home = Path(folder, "page")
            home.mkdir(mode=0o700)
            page_picture.take(processes, home, page_picture.PICTURE)
        finally:
            processes.end_all()
    SCREENSHOT.write_text(taken.svg, encoding="utf-8")
    RECORDING.write_text(taken.cast, encoding="utf-8")
    EMBEDDED.write_text(embedded(taken.cast), encoding="utf-8")


if __name__ == "__main__":
    main()
