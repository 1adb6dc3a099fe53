"""pdb sessions from end to end: a real broker, a real rank, and the real terminal in a window."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.processes import Child, Processes
from tests.support.proxy import Proxy
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.sessions import DETACH, detach
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

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

# From Python 3.13 on pdb begins on the line of the stop itself, not on the line after.
FIRST, AFTER_FIRST = (24, "loss = loss / 2") if sys.version_info >= (3, 13) else (25, "loss = loss - 1")
"""The line of the script at which pdb begins, and the text of the next line."""

LATER = 26
"""A line after FIRST."""

COLUMNS = 200


def start(processes: Processes, home: Path, **variables: str) -> Child:
    """Start the script; return it when it is stopped, on its way to the line after the stop."""
    rank = start_ranks(processes, home, SCRIPT, 1, env={"SCRIPT_ENGINE": "pdb", **variables})[0]
    wait_until_stopped(home, 1)
    return rank


def sit(open_terminal: OpenTerminal, *arguments: str, rows: int = 24, env: dict[str, str] | None = None) -> Terminal:
    """Open a window on the rank; return it at the prompt."""
    terminal = open_terminal(attach_command("0", *arguments), rows=rows, cols=COLUMNS, env=env)
    at_prompt(terminal)
    return terminal


def at_prompt(terminal: Terminal, line: str = "(Pdb)") -> None:
    """Wait until the row above the toolbar is ``line``, and no command runs."""

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


def test_print_and_input_meet_the_terminal_and_other_threads_the_ranks_own(
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
    let_end(terminal, rank)
    assert rank.text() == "from another thread\ntrained to 3.0\n"


def test_ctrl_c_interrupts_a_command_and_whatever_asks_inside_one(
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
    for command, asks, says in (
        ("input('name? ')", "name?", "*** KeyboardInterrupt"),
        ("for i in range(3):", "...", "--KeyboardInterrupt--"),
        ("q", re.compile("Leave pdb.*"), "staying"),
    ):
        terminal.send(f"\x0c{command}\r")
        terminal.wait_for(lambda it, asks=asks: _asks(it, asks))  # type: ignore[misc]
        terminal.send("\x03")
        terminal.wait_for(says)
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


def test_ctrl_c_breaks_into_a_rank_that_runs_with_a_breakpoint_left(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start(processes, home, SCRIPT_LOOPS="1")
    terminal = sit(open_terminal)
    terminal.send("b long\r")
    terminal.wait_for("Breakpoint 1 at")
    terminal.send("c\r")
    terminal.wait_for("Ctrl-C breaks in")
    terminal.send("\x03")
    at_prompt(terminal)
    assert float(run(terminal, "p loss")) > 0
    detach(terminal)
    assert attach(home, "kill", "0", "-y").returncode == 0


def test_completion_that_fails_or_takes_a_minute_gives_nothing_and_the_prompt_goes_on(
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


def test_a_watcher_sees_prompts_what_is_typed_and_output_and_types_nothing(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    driver = sit(open_terminal)
    watcher = sit(open_terminal, "--watch")
    watcher.send("p 'from the watcher'\r")
    watcher.wait_for("you only watch")
    run(driver, "p 'seen by', loss")
    watcher.wait_for(re.compile(r"^\(Pdb\) p 'seen by', loss$\n^\('seen by', 8\)$", re.MULTILINE))
    assert "from the watcher" not in "\n".join(driver.screen)
    let_end(driver, rank)
    assert watcher.exit_status() == 7


def test_whoever_comes_back_sees_what_was_last_said_and_the_source_at_once(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    run(terminal, "p 'said before'")
    terminal.send("detach\r")
    assert terminal.exit_status() == 0
    again = sit(open_terminal, rows=40)
    again.wait_for("'said before'")
    again.wait_for(re.compile(rf"^ *{FIRST} *-> +", re.MULTILINE))
    let_end(again, rank)


def test_pudb_and_pdb_follow_each_other_on_one_stop(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    terminal.send(f"b {LATER}\r")
    terminal.wait_for("Breakpoint 1 at")
    before = attach_list(home)[0]["where"]
    terminal.send(DETACH)
    assert terminal.exit_status() == 0
    pudb = open_terminal(attach_command("0", "--engine", "pudb"), rows=30, cols=COLUMNS)
    pudb.wait_for(lambda it: it.row(0).startswith("PuDB"))
    pudb.wait_for(re.compile(rf"rank_script\.py:{LATER}"))  # among its breakpoints
    detach(pudb)
    again = sit(open_terminal, "--engine", "pdb")
    assert attach_list(home)[0]["where"]["function"] == before["function"] == "train"
    assert f"rank_script.py:{LATER}" in run(again, "b")
    again.send("c\r")
    again.wait_for(re.compile(r"^-> loss = loss - 1$", re.MULTILINE))
    at_prompt(again)
    again.send("clear\ry\r")
    at_prompt(again)
    let_end(again, rank)


def test_the_ranks_own_pdbrc_is_read_only_when_asked_for(
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


def test_the_users_own_pdbrc_and_a_file_of_commands_are_applied_unless_left_out(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    user, commands = tmp_path / "user", tmp_path / "commands"
    user.mkdir()
    (user / ".pdbrc").write_text("# mine\nalias nl n;;l\n")
    commands.write_text("alias hi p 'hello', loss\n")
    env = {**os.environ, "HOME": str(user)}
    rank = start(processes, home)
    without = sit(open_terminal, "--no-rc", env=env)
    assert "NameError" in run(without, "nl")
    detach(without)
    terminal = sit(open_terminal, "-x", str(commands), env=env)
    assert run(terminal, "hi") == "('hello', 8)"
    shown = run(terminal, "nl")
    assert f"-> {AFTER_FIRST}" in shown
    assert re.search(rf"^ *{FIRST} ", shown, re.MULTILINE)
    let_end(terminal, rank)


def test_history_lasts_over_sessions(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    env = {**os.environ, "HOME": str(tmp_path)}
    rank = start(processes, home)
    first = sit(open_terminal, env=env)
    run(first, "p 'remember me'")
    detach(first)
    second = sit(open_terminal, env=env)
    second.send("\x1b[A")
    at_prompt(second, "(Pdb) p 'remember me'")
    second.send("\x03")
    let_end(second, rank)


def test_leaving_asks_and_kill_ends_the_rank(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    for key in ("\x04", "q\r"):
        terminal.send(key)
        terminal.wait_for(lambda it: _asks(it, re.compile(r"Leave pdb.*ends the whole job.*\[c/k/s\]")))
        terminal.send("s\r")
        at_prompt(terminal)
    terminal.send("q\r")
    terminal.wait_for(lambda it: _asks(it, re.compile(r"Leave pdb.*\[c/k/s\]")))
    terminal.send("k\r")
    assert terminal.exit_status() == 8
    assert rank.wait() == -9


@pytest.fixture
def proxy(broker: RunningBroker) -> Iterator[Proxy]:
    """A network in front of the broker that can be cut."""
    with Proxy(("127.0.0.1", broker.port)) as proxy:
        yield proxy


LINES = 100_000
"""Lines of 101 bytes: ten megabytes."""


LINE = re.compile(rb"([0-9]{7}) x{92}\r?\n")
CUT = re.compile("\\[… ([0-9,]+) bytes of output were cut …\\]".encode())


def test_a_cut_in_the_middle_of_ten_megabytes_loses_nothing_unsaid_and_doubles_nothing(
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
