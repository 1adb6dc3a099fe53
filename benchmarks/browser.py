"""The page of ``dbg-attach web`` in Chromium: its first picture of many ranks, and a key of PuDB in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.bench import Bench, Row, Unmeasurable, interleaved
from benchmarks.figures import Figure
from benchmarks.pudb import FIRST, OURS_NAME, ROUNDS, STEPS, Stepping, compared, our_window, stopped_rank
from tests.support.chromium import EXECUTABLE, Chromium, Tab
from tests.support.pages import start_web

LOADS = 5
SIZES = (1000, 10_000)

DRAWN = """async (count) => {
    const counts = () => [...document.querySelectorAll("#counts b")].map((one) => Number(one.textContent));
    const counted = () => counts().reduce((sum, one) => sum + one, 0);
    while (counted() !== count) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now();
}"""
"""Return the milliseconds from the page's address to the picture with all ranks, once they are counted and drawn."""

WATCH = """(number) => {
    const screen = document.querySelector(".pane .xterm-rows");
    let pressed = 0;
    addEventListener("keydown", () => { pressed = performance.now(); }, {once: true, capture: true});
    window.stepped = new Promise((resolve) => {
        const look = () => {
            if (!screen.textContent.includes(number)) return;
            watcher.disconnect();
            resolve(performance.now() - pressed);
        };
        const watcher = new MutationObserver(look);
        watcher.observe(screen, {childList: true, subtree: true, characterData: true});
    });
}"""
"""Note the milliseconds from the next key to a number on the terminal's screen."""


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start the browser."""
    executable = shutil.which(EXECUTABLE)
    if executable is None:
        raise Unmeasurable(f"no {EXECUTABLE} here")
    browser = Chromium(executable)
    try:
        yield browser
    finally:
        browser.close()


def served(bench: Bench, home: Path, *arguments: str) -> str:
    """Serve the page, and return the address with which it is opened."""
    _, base, token = start_web(bench.processes, home, *arguments)
    return f"{base}/?token={token}"


def paint(bench: Bench) -> list[Figure]:
    """Load the page anew with all ranks there; the first load warms the browser up."""
    broker = bench.broker()
    figures, there = [], 0
    with chromium() as browser:
        for size in SIZES:
            bench.ranks(broker.url, broker.tokens["rank"], size - there, first=there)
            there = size
            with browser.tab(served(bench, broker.home)) as tab:
                times = []
                for _ in range(LOADS + 1):
                    tab.reload()
                    times.append(float(tab.evaluate(DRAWN, size)))
                figures.append(Figure(f"{size:,} ranks", "ms", tuple(times[1:])))
    return figures


class PageStepping:
    """A page that steps through the program of the terminals."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        self._seen = FIRST
        tab.focus("#grid")
        tab.press("Enter")
        tab.until_terminal("Variables:")
        # Each step's number is drawn once; the window of the terminal has taken some steps before.
        self._step()

    def _step(self) -> None:
        self._tab.press("n")
        self._tab.until(f"/{str(FIRST)[:3]}\\d+/.test(document.querySelector('.pane .xterm-rows').textContent)")
        text = self._tab.terminal()
        self._seen = max(int(word) for word in text.replace("'", " ").split() if word.startswith(str(FIRST)[:3]))

    def steps(self) -> float:
        """Step STEPS times, each once the one before is drawn; return the milliseconds of one."""
        took = 0.0
        for _ in range(STEPS):
            self._seen += 1
            self._tab.evaluate(WATCH, str(self._seen))
            self._tab.press("n")
            took += float(self._tab.evaluate("() => window.stepped"))
        return took / STEPS


def page_key(bench: Bench) -> list[Figure]:
    """Step in the page, and in the terminal of another rank."""
    with chromium() as browser, ExitStack() as windows:
        terminal = Stepping(windows.enter_context(our_window(bench, stopped_rank(bench))))
        tab = windows.enter_context(browser.tab(served(bench, stopped_rank(bench), "--drive")))
        tab.until_text("#counts", "1 stopped")
        page = PageStepping(tab)
        found = interleaved(ROUNDS, {OURS_NAME: terminal.steps, "page in Chromium": page.steps})
    return compared(found, "ms")


ROWS = (
    Row("page", "the page of `dbg-attach web`, from its address to the picture of all ranks", paint),
    Row("page-key", "`n` in PuDB until the screen shows what it did, in the terminal and in the page", page_key),
)
