"""pdb sessions from end to end: a real broker, a real rank, and the real terminal in a window."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from dbg_client.seat.notices import ONLY_WATCH
from tests.conftest import OpenTerminal
from tests.smoke.test_pdb import _asks, at_prompt, let_end, run, sit, start
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.ranks import attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.time_unit import seconds

# From Python 3.13 on pdb begins on the line of the stop itself, not on the line after.
FIRST, AFTER_FIRST = (24, "loss = loss / 2") if sys.version_info >= (3, 13) else (25, "loss = loss - 1")
"""The line of the script at which pdb begins, and the text of the next line."""


def test_a_failed_or_slow_completion_leaves_the_prompt_usable(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    terminal.send("n\r")
    terminal.wait_for(f"-> {AFTER_FIRST}")
    at_prompt(terminal)
    for attribute in ("minute", "broken"):
        terminal.send(f"p slow.{attribute}.re\t")
        at_prompt(terminal, f"(Pdb) p slow.{attribute}.re")
        terminal.send("\x03")
        at_prompt(terminal)
        assert run(terminal, "p 6 * 7") == "42"
    terminal.send("p slow.pl")
    at_prompt(terminal, "(Pdb) p slow.pl")
    for _ in range(20):  # an answer may be too late on a busy machine
        terminal.send("\t")
        terminal.read_for(0.3)
        if _asks(terminal, "(Pdb) p slow.plain"):
            break
    at_prompt(terminal, "(Pdb) p slow.plain")
    terminal.send("\x03")
    let_end(terminal, rank)


def test_the_pdbrc_of_the_rank_is_ignored_by_default(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    for asked in ("", "1"):
        rank_home = home / "homes" / "rank0"
        rank_home.mkdir(parents=True, exist_ok=True)
        (rank_home / ".pdbrc").write_text("p 'rc of', 'the rank'\n")
        rank = start(processes, home, **({"DBG_PDBRC": asked} if asked else {}))
        terminal = sit(open_terminal)
        run(terminal, "p 1")
        assert ("('rc of', 'the rank')" in terminal.output.decode()) == bool(asked)
        let_end(terminal, rank)


LINES = 100_000
"""Lines of 101 bytes: ten megabytes."""


LINE = re.compile(rb"([0-9]{7}) x{92}\r?\n")
CUT = re.compile("\\[… ([0-9,]+) [^]]*…\\]".encode())


def test_a_cut_connection_repeats_no_output_and_reports_lost_output(
    proxy: Proxy, processes: Processes, home: Path, open_terminal: OpenTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal, env={**os.environ, "DBG_BROKER": f"127.0.0.1:{proxy.port}"})
    terminal.send(f"long({LINES})\r")
    with monkeypatch.context() as unseen:
        # Only the bytes count here: the emulator would need a minute to draw them.
        unseen.setattr(terminal.virtual, "feed", lambda data: None)
        terminal.wait_for(lambda it: b"0001000 " in it.output)
        proxy.cut()
        proxy.mend()
        terminal.wait_for(lambda it: b"%07d " % (LINES - 1) in it.output[-65536:], seconds(60))
        terminal.read_for(0.5)
    terminal.send("\x0c")
    at_prompt(terminal)
    numbers = [int(number) for number in LINE.findall(terminal.output)]
    cuts = [int(count.replace(b",", b"")) for count in CUT.findall(terminal.output)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == LINES - 1
    missing = 101 * (LINES - len(numbers)) - sum(cuts)
    assert 0 <= missing <= 2 * 101 * len(cuts), "at each cut at most two lines are shown in part"
    let_end(terminal, rank)


TRACES = """\
import os, time
from dbg_agent import set_trace

def train(steps, pause):
    set_trace(engine="pdb")
    for step in range(steps):
        time.sleep(pause)
        loss = step * 7
    return loss

train(int(os.environ["STEPS"]), float(os.environ["PAUSE"]))
"""

TRACED = 8


@pytest.mark.parametrize(("steps", "pause"), [(40, 0.01), (200, 0.0)])
def test_breakpoint_commands_print_each_value(
    processes: Processes, home: Path, open_terminal: OpenTerminal, steps: int, pause: float
) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, TRACES, 1, env={"STEPS": str(steps), "PAUSE": str(pause)})
    wait_until_stopped(home, 1)
    terminal = open_terminal(attach_command("0"), rows=24, cols=100)
    at_prompt(terminal)
    terminal.send(f"b {TRACED}\rcommands\rp 'not', step\r")
    terminal.wait_for(lambda it: "(com) p 'not', step" in it.screen)
    at_prompt(terminal, "(com)")
    terminal.send("\x04")
    at_prompt(terminal)
    terminal.send("commands 1\rsilent\rp 'v', step\rc\r")
    terminal.wait_for(lambda it: "(com) c" in it.screen)
    at_prompt(terminal)
    terminal.send("c\r")
    assert terminal.exit_status() in (7, 8), terminal.dump()
    assert rank.wait() == 0
    values = [int(value) for value in re.findall(rb"\('v', ([0-9]+)\)\r?\n", terminal.output)]
    assert values == list(range(steps))
    assert terminal.output.count(b"breakpoint left") == 1


def test_a_watcher_sees_prompts_input_and_output_and_cannot_type(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    driver = sit(open_terminal)
    watcher = sit(open_terminal, "--watch")
    watcher.send("p 'from the watcher'\r")
    watcher.wait_for(ONLY_WATCH)
    run(driver, "p 'seen by', loss")
    watcher.wait_for(re.compile(r"^\(Pdb\) p 'seen by', loss$\n^\('seen by', 8\)$", re.MULTILINE))
    assert "from the watcher" not in "\n".join(driver.screen)
    let_end(driver, rank)
    assert watcher.exit_status() == 7


# From Python 3.13 on pdb begins on the line of the stop itself, not on the line after.


def test_lines_after_a_detach_are_dropped(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start(processes, home)
    for typed in ("detach\rc\r", "\x1b[200~b 3\rdetach\rc\x1b[201~\r"):
        terminal = sit(open_terminal)
        terminal.send(typed)
        assert terminal.exit_status() == 0, terminal.dump()
        assert [rank["state"] for rank in attach_list(home)] == ["stopped"]
