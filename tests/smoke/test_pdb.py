"""pdb sessions from end to end: a real broker, a real rank, and the real terminal in a window."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.processes import Child, Processes
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.terminal import Terminal

SCRIPT = """\
import os, threading, time
from dbg_agent import set_trace

class Slow:
    plain = "text"
    @property
    def minute(self):
        time.sleep(60)
    @property
    def broken(self):
        raise SystemExit("not me")

def elsewhere():
    thread = threading.Thread(target=print, args=("from another thread",), kwargs={"flush": True})
    thread.start()
    thread.join()

def long(lines):
    for number in range(lines):
        print(f"{number:07} " + "x" * 92)

def train(loss):
    slow, loops = Slow(), os.environ.get("SCRIPT_LOOPS")
    set_trace(engine=os.environ.get("SCRIPT_ENGINE"))
    loss = loss / 2
    loss = loss - 1
    while loops:
        loss = loss + 1
    return loss

print("trained to", train(8), flush=True)
"""

COLUMNS = 200


def start(processes: Processes, home: Path, **variables: str) -> Child:
    """Start the script; return it when it is stopped, on its way to the line after the stop."""
    rank = start_ranks(processes, home, SCRIPT, 1, env={"SCRIPT_ENGINE": "pdb", **variables})[0]
    wait_until_stopped(home, 1)
    return rank


def sit(open_terminal: OpenTerminal, *arguments: str, rows: int = 24, env: dict[str, str] | None = None) -> Terminal:
    terminal = open_terminal(attach_command("0", *arguments), rows=rows, cols=COLUMNS, env=env)
    at_prompt(terminal)
    return terminal


def at_prompt(terminal: Terminal, line: str = "(Pdb)") -> None:
    def stands(seen: Terminal) -> bool:
        rows = [row for row in seen.screen if row]
        return len(rows) > 1 and rows[-2] == line and "  stopped  " in rows[-1] and "Ctrl-C" not in rows[-1]

    terminal.wait_for(stands)


def run(terminal: Terminal, command: str, prompt: str = "(Pdb)") -> str:
    """Give one command on an empty screen; return what it showed."""
    terminal.send("\x0c")
    terminal.wait_for(lambda it: it.row(0) == prompt)
    terminal.send(f"{command}\r")
    terminal.wait_for(lambda it: it.row(0) == f"{prompt} {command}" and it.row(1) != "")
    at_prompt(terminal, prompt)
    rows = [row for row in terminal.screen[1:] if row]
    return "\n".join(rows[:-2])


def let_end(terminal: Terminal, rank: Child) -> None:
    terminal.send("c\r")
    assert terminal.exit_status() == 7, terminal.dump()
    assert rank.wait() == 0


def test_print_and_input_use_the_terminal_and_other_threads_the_streams_of_the_rank(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    terminal.send("name = input('name? ')\r")
    at_prompt(terminal, "name?")
    terminal.send("nan\r")
    at_prompt(terminal)
    assert run(terminal, "print('loss of', name)") == "loss of nan"
    assert run(terminal, "p elsewhere()") == "None"
    for line in ("for i in range(2):", "    j = i", "    k = j + 40"):
        terminal.send(f"{line}\r")
        at_prompt(terminal, "...")
    terminal.send("\r")
    at_prompt(terminal)
    assert run(terminal, "p k") == "41"
    let_end(terminal, rank)
    assert rank.text() == "from another thread\ntrained to 3.0\n"


def test_ctrl_c_interrupts_a_command_and_its_prompts(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    for endless in ("while True: pass", "time.sleep(3600)"):
        terminal.send(f"{endless}\r\r" if endless.endswith("pass") else f"{endless}\r")
        terminal.wait_for("Ctrl-C interrupts")
        terminal.send("\x03")
        at_prompt(terminal)
        terminal.wait_for("KeyboardInterrupt")
        terminal.send("\x0c")
    for command, asks, answer in (
        ("input('name? ')", "name?", "*** KeyboardInterrupt"),
        ("for i in range(3):", "...", "--KeyboardInterrupt--"),
        ("q", re.compile(".*[?] .*"), "staying"),
    ):
        terminal.send(f"\x0c{command}\r")
        terminal.wait_for(lambda it, asks=asks: _asks(it, asks))  # type: ignore[misc]
        terminal.send("\x03")
        terminal.wait_for(answer)
        at_prompt(terminal)
    terminal.send("interact\r")
    at_prompt(terminal, ">>>")
    terminal.send("for i in range(3):\r")
    at_prompt(terminal, "...")
    terminal.send("\x03")
    terminal.wait_for("KeyboardInterrupt")
    at_prompt(terminal, ">>>")
    terminal.send("\x04")
    at_prompt(terminal)
    assert run(terminal, "p loss") == "8"
    let_end(terminal, rank)


def _asks(terminal: Terminal, line: str | re.Pattern[str]) -> bool:
    rows = [row for row in terminal.screen if row]
    prompt = rows[-2] if len(rows) > 1 else ""
    return prompt == line if isinstance(line, str) else line.fullmatch(prompt) is not None


def test_quitting_asks_for_confirmation_and_kill_ends_the_rank(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    for key in ("\x04", "q\r"):
        terminal.send(key)
        terminal.wait_for(lambda it: _asks(it, re.compile(r".*\[c/k/s\]")))
        terminal.send("s\r")
        at_prompt(terminal)
    terminal.send("q\r")
    terminal.wait_for(lambda it: _asks(it, re.compile(r".*\[c/k/s\]")))
    terminal.send("k\r")
    assert terminal.exit_status() == 8
    assert rank.wait() == -9
