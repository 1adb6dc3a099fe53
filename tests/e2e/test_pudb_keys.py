"""Keys of PuDB over the broker: they work as on the rank's own terminal, or say why not; threads take turns."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    line_after_all_keys,
    line_shown,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.ranks import attach_list
from tests.support.stopped_rank import (
    PAUSE,
    SCALED,
    WORKING,
    WORKING_STOP,
    let_end,
    start_stopped,
    wait_for_list,
    wait_for_whole,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("broker")

STORMS = 6

STEPS = """\
import time, dbg_agent
dbg_agent.set_trace()
for number in range(1000):
    time.sleep(0.03)
    a = number
    time.sleep(0.3 if number % 4 == 1 else 0)
    b = a
"""
"""Some of its steps are told as slow, others are not."""

ASKS = "Leave the debugger?"
"""Title of the dialog that ``q`` opens."""


def shows_dialog(title: str) -> re.Pattern[str]:
    """Return a pattern of the whole box of PuDB's dialog with that title."""
    return re.compile(rf"┌─+┐.*│ +{re.escape(title)} +│.*└─+┘", re.DOTALL)


class TestKeys:
    def test_the_screen_is_pudbs_after_storms_of_keys_and_resizes(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, STEPS)
        terminal = sit_in_pudb(open_terminal, "0")
        for storm in range(STORMS):
            terminal.send("nnnnnnnnnnnn")
            if storm % 3 == 2:
                terminal.resize(24 + storm, 100 + storm)
            line_after_all_keys(terminal, home)
            wait_for_whole(terminal, home)

    def test_steps_breakpoints_and_expressions(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("n")
        wait_for_line(terminal, WORKING_STOP + 1)
        terminal.send("s")
        terminal.wait_for(re.compile(r">> scaled"))
        terminal.send("n")
        wait_for_line(terminal, SCALED)
        terminal.wait_for("number: 4")
        terminal.send("!number * 1000 + 2\r")
        terminal.wait_for(re.compile(r"^4002$", re.MULTILINE))
        terminal.send("number = 5\r\x18n")
        terminal.wait_for("result: 50")
        terminal.send("nn")
        terminal.wait_for("a: 50")
        wait_for_line(terminal, WORKING_STOP + 2)
        # A breakpoint is set two lines down, where `c` stops.
        terminal.send("jjb")
        terminal.wait_for(re.compile(r"rank_script\.py:17"))
        terminal.send("c")
        terminal.wait_for("c: 52")
        assert line_after_all_keys(terminal, home) == WORKING_STOP + 4
        terminal.send("b")
        wait_until_gone(terminal, "rank_script.py:17 (")
        let_end(terminal, rank, result=54)

    def test_three_steps_typed_ahead_are_three_steps(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nnn")
        assert line_after_all_keys(terminal, home) == WORKING_STOP + 3
        assert line_shown(terminal) == WORKING_STOP + 3
        let_end(terminal, rank)

    @pytest.mark.parametrize(
        ("key", "says"),
        [
            ("o", "The output screen would use the rank's own terminal"),
            ("\x05", "An editor would use the rank's own terminal"),
            ("\x10", "PuDB's preferences are not available here"),
        ],
    )
    def test_keys_that_need_what_is_the_ranks_own_say_so(
        self, key: str, says: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send(key)
        terminal.wait_for(shows_dialog("Message"))
        text = " ".join("".join(terminal.screen).replace("│", " ").split())
        assert says in text
        terminal.send("\r")
        wait_until_gone(terminal, "Message")
        terminal.send("n")
        wait_for_line(terminal, WORKING_STOP + 1)
        let_end(terminal, rank)

    @pytest.mark.parametrize("shell", ["ipython", "classic", "ptpython"])
    def test_the_shell_stays_on_pudbs_own_screen_whatever_is_configured(
        self, shell: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        config = home / "homes" / "rank0" / ".config" / "pudb" / "pudb.cfg"
        config.parent.mkdir(parents=True)
        config.write_text(f"[pudb]\nshell = {shell}\n")
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("!6 * 7000\r")
        terminal.wait_for(re.compile(r"^42000$", re.MULTILINE))
        terminal.send(b"\x18")
        let_end(terminal, rank)
        assert config.read_text() == f"[pudb]\nshell = {shell}\n"


class TestLeavingByQ:
    @pytest.mark.parametrize("key", ["s", "\x1b", "q", "\r"])
    def test_stay_changes_nothing(
        self, key: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("q")
        terminal.wait_for(shows_dialog(ASKS))
        terminal.send(key)
        wait_until_gone(terminal, ASKS)
        wait_for_whole(terminal, home)
        terminal.send("n")
        wait_for_line(terminal, WORKING_STOP + 1)
        let_end(terminal, rank)

    def test_continue_removes_all_breakpoints(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("jjb")
        terminal.wait_for("rank_script.py:15")
        terminal.send("q")
        terminal.wait_for(shows_dialog(ASKS))
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0
        assert rank.text() == "result 44\n"

    def test_kill_ends_the_rank(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("q")
        terminal.wait_for(shows_dialog(ASKS))
        terminal.send("k")
        assert terminal.exit_status() == 8
        assert "was killed by SIGKILL" in "\n".join(terminal.screen)
        assert rank.wait() == -signal.SIGKILL


IN_A_THREAD = f"""\
{PAUSE}
def work(number):
    a = number
    set_trace()
    b = a + 1
    print("thread", b, flush=True)

thread = threading.Thread(target=work, args=(41,))
thread.start()
thread.join()
"""

TWO_THREADS = f"""\
{PAUSE}
both = threading.Barrier(2)
def work(number):
    both.wait()
    set_trace()
    after = number + 1

threads = [threading.Thread(target=work, args=(number,)) for number in (1000, 2000)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("both done", flush=True)
"""


class TestThreads:
    def test_a_stop_outside_the_main_thread(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, IN_A_THREAD)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nn")
        terminal.wait_for("b: 42")
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0
        assert rank.text() == "thread 42\n"

    def test_stepping_off_the_end_of_a_thread_ends_the_stop(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, IN_A_THREAD)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nn")
        terminal.wait_for("b: 42")
        terminal.send("n" * 60)
        assert terminal.exit_status() in (7, 8)
        assert rank.wait() == 0
        assert "dbg-agent: " not in rank.text("stderr").replace("dbg-agent: ", "", 1)

    def test_the_stop_of_a_second_thread_follows_in_the_same_terminal(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, TWO_THREADS)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.wait_for(re.compile("number: [12]000"))
        wait_for_list(home, lambda listed: listed[0]["queued"] == 1)
        first = "1000" if "number: 1000" in "\n".join(terminal.screen) else "2000"
        second = "2000" if first == "1000" else "1000"
        terminal.send("n")
        terminal.wait_for(re.compile(r"^>\s+after = ", re.MULTILINE))
        terminal.send("c")
        terminal.wait_for(f"number: {second}")
        wait_for_whole(terminal, home)
        assert attach_list(home)[0]["queued"] == 0
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0
        assert rank.text() == "both done\n"
