"""The page's server beside real ranks and terminals: keys, the keyboard handed over, restarts, who may do what."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_wire.errors import NeedsExtra
from tests.support.broker import running_broker
from tests.support.pages import ADDRESS, browser_at, page, run
from tests.support.processes import Processes
from tests.support.ranks import start_ranks, wait_until_stopped
from tests.support.runs import Directory
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(120))

HOSTILE = """\
import dbg_agent, os
rank = int(os.environ["RANK"])
class Odd:
    def __repr__(self):
        return '<img src=x onerror="alert(1)">\\x1b]0;owned\\x07'
odd = Odd()
dbg_agent.set_trace(engine="pdb")
print("\\x1b]52;c;eA==\\x07<script>alert(1)</script>")
dbg_agent.set_trace(engine="pdb")
"""


def test_what_a_rank_says_stays_text(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, HOSTILE, 1, env={"DBG_JOB": "<b>job"})
    wait_until_stopped(home, 1)

    async def work() -> None:
        async with page(processes, home, "--drive") as (browser, _), browser.live() as live:
            key = next(iter((await live.rows()).values()))["key"]
            value = (await live.answer(1, "eval 0 odd"))["groups"][0]["text"]
            assert '<img src=x onerror="alert(1)">' in value
            async with browser.terminal(key) as terminal:
                prompt = await terminal.until("prompt", lambda said: said["number"] >= 0)
                assert prompt["text"] == "(Pdb) "
                await terminal.say("reply", prompt=prompt["number"], text="n")
                await terminal.until_bytes(b"<script>alert(1)</script>")
                # Neither the clipboard nor the title of the page's terminal is the rank's.
                assert b"\x1b]" not in terminal.bytes

    run(work)


def test_a_run_serves_its_job_as_a_page_that_ends_with_it(directory: Directory) -> None:
    directory.write("import dbg_agent\ndbg_agent.set_trace()\n")
    running = directory.processes.start(
        "run", directory.command("--web", "--", sys.executable, "train.py"), env=directory.variables
    )
    found = ADDRESS.search(running.wait_for_output(ADDRESS.pattern, stream="stderr")[0])
    assert found is not None
    wait_until_stopped(directory.home, 1)

    async def work() -> None:
        async with browser_at(found[1], found[2]) as browser, browser.live() as live:
            hello = await live.until("hello")
            assert (hello["drive"], hello["target"].endswith("/all")) == (False, True)
            if not await live.rows():
                await live.until("change", lambda said: bool(said["rows"]))
            await asyncio.to_thread(directory.attach, "continue", "all")
            assert await live.until_end() == 1001

    run(work)
    assert running.wait() == 0


@pytest.mark.parametrize(
    ("module", "words"),
    [("dbg_client.command_line.main", ["web"]), ("dbg_broker.cli.main", ["run", "--web", "--", "true"])],
)
def test_without_aiohttp_a_sentence_says_how_to_install_it(home: Path, module: str, words: list[str]) -> None:
    program = f"import sys; sys.modules['aiohttp'] = None; from {module} import main; sys.exit(main({words!r}))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert NeedsExtra("", "aiohttp", "web").remedy in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not (home / "broker.json").exists()
