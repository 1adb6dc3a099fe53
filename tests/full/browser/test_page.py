"""The page of ``dbg-attach web`` in a real Chromium, with a real broker and real ranks."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.docs.page_picture import waiting_crowd
from tests.support.chromium import Chromium, Tab
from tests.support.pages import LINE, address_of, start_web, stopped_ranks
from tests.support.processes import Processes
from tests.support.ranks import attach, wait_until_states

ROOT = Path(__file__).parents[3]


def open_debugger(tab: Tab, count: int) -> None:
    """Open the debugger of the first rank once so many ranks are stopped."""
    tab.until_text("#counts", f"{count} stopped")
    tab.focus("#grid")
    tab.press("Enter")
    tab.until_terminal("PuDB")


def test_a_thousand_ranks_are_drawn_selected_and_asked(chromium: Chromium, processes: Processes, home: Path) -> None:
    waiting_crowd(processes, home, 1000, 11)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "1000 running")
        assert "1000 running" in str(tab.evaluate("() => document.querySelector('#grid').ariaLabel"))
        # The first cell is the first rank; a rectangle from it has ranks of several hosts.
        left, top = tab.corner("#cells")
        tab.focus("#grid")
        tab.press("ArrowRight", "Space")
        tab.until_text("#whom", "rank 1")
        tab.drag((left + 1, top + 1), (left + 400, top + 60))
        tab.until_text("#inspector", "selected")
        assert int(tab.text("#inspector").split()[0]) > 8
        tab.press("Escape", "/")
        tab.type("gpu000:*,!0-3")
        tab.press("Enter")
        tab.until_text("#inspector", "selected")
        tab.press("Escape")
        tab.ask("why")
        tab.until_text("#answer", "rank 11")
        tab.until_text("#answer", "has not reached all_reduce")
        tab.until_text("#why summary", "has not reached all_reduce")
        tab.until_text("#counts", "1 awaited")
        # The banner folds where the dock opens, and ranks and answers keep a part of a small window.
        tab.resize(1366, 768)
        tab.click("#fold")
        for part in ("#grid", "#answer"):
            tab.until(f"document.querySelector('{part}').clientHeight > 100")
        tab.click("#why summary")
        tab.click("#fold")
        tab.click("#why .next button")
        tab.until_text("#whom", "rank 11")
        tab.press("Tab")
        tab.click("#view")
        tab.until("document.querySelectorAll('#list tbody tr').length === 100")


def test_the_page_outlives_its_broker(chromium: Chromium, processes: Processes, home: Path) -> None:
    broker = stopped_ranks(processes, home, 2)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "2 stopped")
        tab.focus("#grid")
        tab.press("Space", "Enter")
        tab.until_terminal("PuDB")
        broker.kill()
        tab.until("document.body.classList.contains('stale')")
        broker.restart()
        tab.until("!document.body.classList.contains('stale')")
        wait_until_states(home, {0: "stopped", 1: "stopped"})
        tab.until_text(".pane .driver", "you drive")
        tab.focus(".pane .xterm-helper-textarea")
        tab.press("n")
        tab.until_text(".pane .standing", f"rank_script.py:{LINE + 1}")
        # The list of ranks has come from the new broker once it has the step.
        tab.until_text("#inspector", f"rank_script.py:{LINE + 1}")
        tab.ask("rank")
        tab.until_text("#answer", "1 of 1")


def test_a_page_reports_a_silent_server_and_reconnects(chromium: Chromium, processes: Processes, home: Path) -> None:
    stopped_ranks(processes, home, 1)
    web, base, token = start_web(processes, home, "--drive")
    with chromium.tab("about:blank") as tab:
        chromium.do(tab.page.clock.install())
        tab.open(f"{base}/?token={token}")
        open_debugger(tab, 1)
        # As behind a tunnel whose network is gone: no connection ends.
        web.signal(signal.SIGSTOP)
        chromium.do(tab.page.clock.fast_forward("00:20"))
        tab.until_text("#link", "no connection to the server")
        tab.until_text(".pane .notice", "reconnecting")
        web.signal(signal.SIGCONT)
        tab.until("!document.body.classList.contains('stale')")
        tab.until_text(".pane .driver", "you drive")


def test_updates_keep_the_focus_and_ages_advance(chromium: Chromium, processes: Processes, home: Path) -> None:
    stopped_ranks(processes, home, 2)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "2 stopped")
        tab.focus("#grid")
        tab.press("Space")
        tab.until_text("#inspector", f"rank_script.py:{LINE}")
        for selector in ("#counts button", "#inspector button", "#list button"):
            tab.focus(selector)
            tab.evaluate("() => { window.before = document.activeElement; }")
            attach(home, "command", "0", "n")
            tab.until("!window.before.isConnected")
            assert tab.evaluate("(selector) => document.activeElement.matches(selector)", selector), selector
        shown = tab.text("#inspector time")
        tab.until(f"document.querySelector('#inspector time').textContent !== {shown!r}")


def test_the_page_shows_the_end_of_its_server(chromium: Chromium, processes: Processes, home: Path) -> None:
    stopped_ranks(processes, home, 1)
    web, base, token = start_web(processes, home)
    with chromium.tab(f"{base}/?token={token}") as tab:
        open_debugger(tab, 1)
        web.terminate()
        tab.until_text(".pane .standing", "over")
        tab.fill("#line", "loss + 1")
        tab.press_in("#line", "Enter")
        tab.until_text("#asking", "Not asked")
        assert tab.evaluate("() => document.querySelector('#line').value") == "loss + 1"


def test_a_terminal_has_the_size_of_its_pane_and_accepts_pasted_text(
    chromium: Chromium, processes: Processes, home: Path
) -> None:
    stopped_ranks(processes, home, 1)
    with chromium.tab(address_of(processes, home, "--drive"), size=(1400, 1000)) as tab:
        open_debugger(tab, 1)
        wide = max(map(len, tab.terminal().splitlines()))
        tab.resize(900, 800)
        # PuDB draws its right half anew, closer to the left one.
        tab.until_terminal("Variables:")
        rows = (
            "[...document.querySelectorAll('.pane .xterm-rows > div')].map((row) => row.textContent.trimEnd().length)"
        )
        tab.until(f"Math.max(...{rows}) < {wide - 20}")
        tab.press("!")
        tab.until_terminal(">>>")
        tab.paste(".pane .xterm-helper-textarea", "40 + 2")
        tab.until_terminal(">>> 40 + 2")
        # What is selected is seen, and copied where the debugger would be interrupted otherwise.
        chromium.do(tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"]))
        left, top = tab.corner(".pane .xterm-screen")
        tab.drag((left + 4, top + 6), (left + 60, top + 6))
        tab.until("document.querySelector('.pane .xterm-rows span[style*=background]')")
        tab.press("Control+c")
        tab.until("(await navigator.clipboard.readText()).includes('DB')")


def test_a_narrow_screen_shows_the_list(chromium: Chromium, processes: Processes, home: Path) -> None:
    stopped_ranks(processes, home, 2)
    with chromium.tab(address_of(processes, home), size=(360, 740)) as tab:
        tab.until("document.querySelectorAll('#list tbody tr').length === 2")
        assert tab.evaluate("() => getComputedStyle(document.querySelector('#grid')).display") == "none"
        # Nothing is wider than the screen.
        assert tab.evaluate("() => document.documentElement.scrollWidth") <= 360
        tab.click("#list .name")
        tab.until_text("#inspector", "stopped")
        tab.click("#inspector button")
        tab.until_terminal("PuDB")


AXE = ROOT / "scripts/javascript/node_modules/axe-core/axe.min.js"

# What a debugger draws has the colours of its own theme.
FINDINGS = """async () => {
    const {violations} = await axe.run({exclude: [".xterm"]}, {resultTypes: ["violations"]});
    return violations.map(({id, nodes}) => `${id}: ${nodes.map((node) => node.html + node.failureSummary).join("; ")}`);
}"""


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core here (`scripts/check-javascript ready` installs it)")
def test_the_page_passes_the_accessibility_checks(chromium: Chromium, processes: Processes, home: Path) -> None:
    stopped_ranks(processes, home, 2)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "2 stopped")
        tab.evaluate(AXE.read_text(encoding="utf-8") + "\nundefined")
        tab.ask("loss")
        assert tab.evaluate(FINDINGS) == []
        tab.ask("where")
        tab.until_text("#answer .tree", "main")
        tab.focus("#grid")
        tab.press("Enter")
        tab.until_terminal("PuDB")
        assert tab.evaluate(FINDINGS) == []
        tab.dark()
        tab.click("#view")
        assert tab.evaluate(FINDINGS) == []
        tab.click("#help")
        tab.until("document.querySelector('#dialog').open")
        assert tab.evaluate(FINDINGS) == []
        tab.press("Escape")
        # Keys reach the list of ranks, which stands for the grid, and go from there into a terminal and out again.
        headers = tab.evaluate("() => [...document.querySelectorAll('#list thead th')].map((one) => one.textContent)")
        assert headers[:3] == ["Rank", "State", "Place"]


def test_a_watching_page_shows_the_whole_screen_of_the_driver(
    chromium: Chromium, processes: Processes, home: Path
) -> None:
    stopped_ranks(processes, home, 1)
    web, base, token = start_web(processes, home, "--drive")
    with chromium.tab(f"{base}/?token={token}", size=(1400, 1000)) as large:
        large.until_text("#counts", "1 stopped")
        large.focus("#grid")
        large.press("Enter")
        large.until_terminal("Variables:")
        (link,) = re.findall(r"another browser: (\S+)", web.text("stderr"))
        with chromium.tab(link, size=(800, 700)) as small:
            small.until_text("#counts", "1 stopped")
            # Nothing of the page is cut off in a window of this width.
            assert small.evaluate("() => document.querySelector('#ask .primary').getBoundingClientRect().right") < 800
            small.focus("#grid")
            small.press("Enter")
            small.until_terminal("PuDB")
            small.until_terminal("Breakpoints:")
            assert len(small.terminal().splitlines()) == len(large.terminal().splitlines())
            inside = "[...document.querySelectorAll('.pane .xterm-screen')].every((one) => one.offsetHeight <= "
            small.until(f"{inside} document.querySelector('.screen').clientHeight)")
            small.click(".pane .keyboard")
            small.until_text(".pane .driver", "you drive")
            rows = "document.querySelectorAll('.pane .xterm-rows > div').length"
            fewer = int(small.evaluate(f"() => {rows}"))
            large.until(f"{rows} === {fewer}")
            large.until_terminal("Breakpoints:")
