"""A real Chromium, driven through pages: one browser for a module of tests, and a tab for each test.

The browser's side runs in a thread with an event loop of its own, as tests wait for processes and terminals meanwhile.
A tab notes every error, and every breach of the page's content security policy; a test ends with :meth:`Tab.close`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from playwright.async_api import BrowserContext, ConsoleMessage, Page, async_playwright
from playwright.async_api import Error as PlaywrightError

from tests.support.processes import USUAL_WAIT
from tests.support.time_unit import seconds

EXECUTABLE = "chromium-headless-shell"

FLAGS = (
    "--no-sandbox",
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"),
    *("--disable-default-apps", "--disable-client-side-phishing-detection", "--no-pings"),
)

Scheme = Literal["light", "dark"]

_T = TypeVar("_T")


class Tab:
    """A page in a window of its own, without the cookies of others; used from one thread."""

    def __init__(self, chromium: Chromium, context: BrowserContext, page: Page) -> None:
        self._do = chromium.do
        self._context = context
        self.page = page
        self.problems: list[str] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        # A connection that is refused while a server is down is one of the test's own making.
        if message.type == "error" and "ERR_CONNECTION" not in message.text and "WebSocket" not in message.text:
            self.problems.append(message.text)

    def open(self, address: str) -> None:
        self._do(self.page.goto(address))

    def reload(self) -> None:
        self._do(self.page.reload())

    def evaluate(self, script: str, argument: object = None) -> Any:
        return self._do(self.page.evaluate(script, argument))

    def until(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true, looked at with each picture that the page draws."""
        script = f"async () => {{ while (!({condition})) await new Promise(requestAnimationFrame); }}"
        try:
            self.evaluate(script)
        except TimeoutError:
            shown = self.evaluate("() => document.body.innerText")
            raise AssertionError(f"never became true: {condition}\n{self.problems}\n{shown}") from None

    def until_text(self, selector: str, text: str) -> None:
        self.until(f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})")

    def text(self, selector: str) -> str:
        return str(self.evaluate("(selector) => document.querySelector(selector)?.innerText ?? ''", selector))

    def count(self, selector: str) -> int:
        return int(self.evaluate("(selector) => document.querySelectorAll(selector).length", selector))

    def corner(self, selector: str) -> tuple[float, float]:
        box = self.evaluate("(selector) => document.querySelector(selector).getBoundingClientRect().toJSON()", selector)
        return box["x"], box["y"]

    def click(self, selector: str) -> None:
        self._do(self.page.click(selector, timeout=seconds(USUAL_WAIT) * 1000))

    def fill(self, selector: str, text: str) -> None:
        self._do(self.page.fill(selector, text))

    def choose(self, selector: str, value: str) -> None:
        self._do(self.page.select_option(selector, value))

    def press(self, *keys: str) -> None:
        """Press keys, by the names that DOM gives them, as in ``Control+]``."""
        for key in keys:
            self._do(self.page.keyboard.press(key))

    def type(self, text: str) -> None:
        self._do(self.page.keyboard.type(text))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        mouse = self.page.mouse
        self._do(mouse.move(*start))
        self._do(mouse.down())
        self._do(mouse.move(*end, steps=4))
        self._do(mouse.up())

    def ask(self, line: str) -> None:
        """Put a question, and wait until its answer, or why there is none, is shown."""
        before = self.count("#history option")
        self.fill("#line", line)
        self.press_in("#line", "Enter")
        self.until(f"document.querySelectorAll('#history option').length === {before + 1}")
        self.until("!document.querySelector('#asking').textContent.endsWith('Cancel')")

    def press_in(self, selector: str, key: str) -> None:
        self._do(self.page.press(selector, key))

    def focus(self, selector: str) -> None:
        self._do(self.page.focus(selector))

    def resize(self, width: int, height: int) -> None:
        self._do(self.page.set_viewport_size({"width": width, "height": height}))

    def dark(self) -> None:
        self._do(self.page.emulate_media(color_scheme="dark"))

    def paste(self, selector: str, text: str) -> None:
        """Paste a text into an element, as the browser does on Ctrl-V."""
        script = """([selector, text]) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            const event = new ClipboardEvent("paste", {clipboardData, bubbles: true, cancelable: true});
            document.querySelector(selector).dispatchEvent(event);
        }"""
        self.evaluate(script, [selector, text])

    def screenshot(self, path: Path) -> None:
        self._do(self.page.screenshot(path=path))

    def terminal(self, number: int = 0) -> str:
        """Return the screen of one of the page's terminals, row by row."""
        rows = "[...document.querySelectorAll('.pane')][number].querySelectorAll('.xterm-rows > div')"
        script = f"(number) => [...{rows}].map((row) => row.textContent.replaceAll('\\u00a0', ' ')).join('\\n')"
        return str(self.evaluate(script, number))

    def until_terminal(self, text: str) -> None:
        rows = "[...document.querySelectorAll('.pane')[0]?.querySelectorAll('.xterm-rows > div') ?? []]"
        shown = f"{rows}.map((row) => row.textContent.replaceAll('\\u00a0', ' ')).join('\\n')"
        self.until(f"{shown}.includes({json.dumps(text)})")

    def close(self) -> None:
        self._do(self._context.close())
        assert self.problems == []


class Chromium:
    """A browser without a window, in a thread of its own."""

    def __init__(self, executable: str) -> None:
        self._executable = executable
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chromium", daemon=True)
        self._thread.start()
        self._playwright = async_playwright()
        self._browser = self.do(self._start())

    def do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(self._limited(work), self._loop).result()

    async def _limited(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await asyncio.wait_for(work, seconds(USUAL_WAIT) * 2)

    async def _start(self) -> Any:
        playwright = await self._playwright.start()
        return await playwright.chromium.launch(executable_path=self._executable, args=list(FLAGS))

    @contextmanager
    def tab(
        self,
        address: str,
        *,
        size: tuple[int, int] = (1440, 900),
        scheme: Scheme = "light",
        scale: float = 1,
    ) -> Iterator[Tab]:
        """Open an address; at the end the page must have had no problem."""
        tab = self.do(self._open(size, scheme, scale))
        tab.open(address)
        try:
            yield tab
        except BaseException:
            self.do(tab._context.close())
            raise
        tab.close()

    async def _open(self, size: tuple[int, int], scheme: Scheme, scale: float) -> Tab:
        context = await self._browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=scale
        )
        return Tab(self, context, await context.new_page())

    def close(self) -> None:
        try:
            self.do(self._browser.close())
            self.do(self._playwright.__aexit__(None, None, None))
        except PlaywrightError:
            pass
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def chromium_or_skip() -> Iterator[Chromium]:
    """Start Chromium; without it the tests that need it are skipped."""
    executable = shutil.which(EXECUTABLE)
    if executable is None:
        pytest.skip(f"no {EXECUTABLE} here (`scripts/install-system-packages` installs it)")
    browser = Chromium(executable)
    try:
        yield browser
    finally:
        browser.close()
