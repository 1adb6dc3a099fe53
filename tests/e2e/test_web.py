"""The page's server beside real ranks and terminals: keys, the keyboard handed over, restarts, who may do what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dbg_wire.errors import NeedsExtra
from tests.support.broker import running_broker
from tests.support.pages import page, run
from tests.support.processes import Processes
from tests.support.ranks import start_ranks, wait_until_stopped
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


def test_output_of_a_rank_is_shown_as_text(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, HOSTILE, 1, env={"DBG_JOB": "<b>job"})
    wait_until_stopped(home, 1)

    async def work() -> None:
        async with page(processes, home, "--drive") as (browser, _), browser.live() as live:
            key = next(iter((await live.rows()).values()))["key"]
            value = (await live.answer(1, "eval 0 odd"))["groups"][0]["text"]
            assert '<img src=x onerror="alert(1)">' in value
            async with browser.terminal(key) as terminal:
                prompt = await terminal.until("prompt", lambda message: message["number"] >= 0)
                assert prompt["text"] == "(Pdb) "
                await terminal.send("reply", prompt=prompt["number"], text="n")
                await terminal.until_bytes(b"<script>alert(1)</script>")
                # Neither the clipboard nor the title of the page's terminal is the rank's.
                assert b"\x1b]" not in terminal.bytes

    run(work)


def test_without_aiohttp_a_sentence_names_the_package_to_install(home: Path) -> None:
    main = "from dbg_client.command_line.main import main; sys.exit(main(['web']))"
    program = f"import sys; sys.modules['aiohttp'] = None; {main}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert NeedsExtra("", "aiohttp", "web").remedy in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not (home / "broker.json").exists()
