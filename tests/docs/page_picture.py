"""The picture of the page of ``dbg-attach web``: 512 light ranks, of which all but one wait in a collective."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.docs.pages import ROOT
from tests.support.broker import RunningBroker, running_broker
from tests.support.chromium import EXECUTABLE, Chromium
from tests.support.pages import start_web
from tests.support.processes import Processes

PICTURE = ROOT / "docs/images/page.png"

RANKS, MISSING = 512, 11

SIZE, SCALE = (1280, 800), 1.5


def waiting_crowd(processes: Processes, home: Path, count: int, missing: int) -> RunningBroker:
    """Start a broker and light ranks that wait in a collective for one of them."""
    broker = running_broker(processes, home)
    words = [broker.url, broker.rendezvous["tokens"]["rank"], str(count), str(missing)]
    crowd = processes.start("crowd", [sys.executable, "-m", "tests.support.crowd", "waiting", *words], cwd=ROOT)
    crowd.wait_for_output("registered")
    return broker


def take(processes: Processes, home: Path, path: Path) -> None:
    """Write the picture."""
    executable = shutil.which(EXECUTABLE)
    if executable is None:
        raise SystemExit(f"no {EXECUTABLE} here: `scripts/install-system-packages` installs it")
    waiting_crowd(processes, home, RANKS, MISSING)
    _, base, token = start_web(processes, home)
    browser = Chromium(executable)
    try:
        with browser.tab(f"{base}/?token={token}", size=SIZE, scheme="dark", scale=SCALE) as tab:
            tab.until_text("#counts", f"{RANKS} running")
            tab.ask("why")
            tab.until_text("#why summary", "has not reached")
            tab.ask("where")
            tab.until_text("#answer .tree", "wait_for_shard")
            tab.screenshot(path)
    finally:
        browser.close()
