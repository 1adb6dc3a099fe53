"""At every end of a session the terminal says how it ended, is given back, and tells scripts by its exit status."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.own_settings import assert_given_back, with_own_settings
from tests.support.processes import Child, Processes
from tests.support.proxy import Proxy
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.stopped_rank import start_stopped, wait_for_state
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")

SCRIPT = """\
import os, signal, sys
import dbg_agent
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
dbg_agent.install()
if "WAITS_FIRST" in os.environ:
    signal.sigwait({signal.SIGUSR1})
dbg_agent.set_trace()
first = 1
second = 2
if "WAITS" in os.environ:
    signal.sigwait({signal.SIGUSR1})
exec(os.environ.get("ENDS", ""))
"""

STOP = 7
"""Line of the ``set_trace()`` call."""


@pytest.fixture
def proxy(broker: RunningBroker) -> Iterator[Proxy]:
    """A network in front of the broker that can be cut."""
    with Proxy(("127.0.0.1", broker.port)) as proxy:
        yield proxy


def start_one(processes: Processes, home: Path, **variables: str) -> Child:
    """Start one rank and return it when it is stopped."""
    return start_stopped(processes, home, SCRIPT, variables)


def start_running(processes: Processes, home: Path) -> None:
    """Start one rank and return when it is listed as running."""
    start_ranks(processes, home, SCRIPT, 1, env={"WAITS_FIRST": "1"})
    wait_for_state(home, "running")


def attach_with_own_settings(open_terminal: OpenTerminal, home: Path, *arguments: str) -> Terminal:
    """Return a terminal in PuDB whose settings :func:`ended` checks."""
    terminal = open_terminal(with_own_settings(home, attach_command("0", *arguments)))
    terminal.wait_for(DRAWN)
    return terminal


def ended(terminal: Terminal, home: Path) -> tuple[int, str]:
    """Return status and last words of a terminal's program; fail unless it has given the terminal back."""
    status = terminal.exit_status()
    assert_given_back(terminal, home)
    said = [row for row in terminal.screen if row]
    return status, " ".join(said[1:])


STEP_OFF_THE_END = "n" * 12

DIED = "died: it was killed, crashed, or called os._exit"
"""The broker's words for a rank that is gone. The guard, which knows the signal, may report the end first."""

ENDS: dict[str, tuple[str, Callable[[Terminal, Child], None], int, str]] = {
    "killed": ("", lambda _, rank: rank.kill(), -signal.SIGKILL, f"({DIED}|was killed by SIGKILL)"),
    "terminated": ("", lambda _, rank: rank.terminate(), -signal.SIGTERM, f"({DIED}|was killed by SIGTERM)"),
    "crashed": (
        "os.kill(os.getpid(), signal.SIGSEGV)",
        lambda terminal, _: terminal.send(STEP_OFF_THE_END),
        -signal.SIGSEGV,
        f"({DIED}|was killed by SIGSEGV)",
    ),
    "os._exit": (
        "os._exit(4)",
        lambda terminal, _: terminal.send(STEP_OFF_THE_END),
        4,
        rf"({DIED}|has exited with status 4 without a traceback \(as by os._exit\))",
    ),
    "sys.exit": ("sys.exit(3)", lambda terminal, _: terminal.send(STEP_OFF_THE_END), 3, "has exited"),
    "exception": ("1 / 0", lambda terminal, _: terminal.send(STEP_OFF_THE_END), 1, "has exited with status 1"),
    "end of script": ("", lambda terminal, _: terminal.send(STEP_OFF_THE_END), 0, "has exited"),
    "q and k": ("", lambda terminal, _: terminal.send("qk"), -signal.SIGKILL, "was killed by SIGKILL"),
}


class TestRankEnds:
    @pytest.mark.parametrize("how", ENDS)
    def test_the_terminal_says_how_and_is_given_back(
        self, how: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        last_act, end, rank_status, says = ENDS[how]
        rank = start_one(processes, home, ENDS=last_act)
        terminal = attach_with_own_settings(open_terminal, home)
        end(terminal, rank)
        assert rank.wait() == rank_status
        status, said = ended(terminal, home)
        assert status == 8
        assert re.fullmatch(rf"dbg-attach: [a-z0-9-]+:0 {says}.*", said), said
        (listed,) = attach_list(home, "--all")
        assert (listed["state"], listed["exit"]) == (
            "exited",
            {"has exited with status 1": 1}.get(says, listed["exit"]),
        )
        # The only line of the agent in the job's log is that of the stop.
        others = [line for line in rank.text("stderr").splitlines() if "dbg" in line and "rank_script.py" not in line]
        assert others == []
        assert "Exception ignored" not in rank.text("stderr")

    def test_another_rank_that_ends_disturbs_nobody(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        ranks = start_ranks(processes, home, SCRIPT, 2)
        wait_until_stopped(home, 2)
        terminal = sit_in_pudb(open_terminal, "0")
        ranks[1].kill()
        ranks[1].wait()
        terminal.send("n")
        wait_for_line(terminal, STOP + 1)
        terminal.send("\x1dn")
        terminal.wait_for(lambda terminal: "no other rank of this job is stopped" in terminal.row(-1))

    def test_a_rank_that_is_cut_off_and_stays_away_is_given_up(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal, proxy: Proxy
    ) -> None:
        rank = start_one(processes, home, DBG_BROKER=f"127.0.0.1:{proxy.port}")
        terminal = attach_with_own_settings(open_terminal, home)
        proxy.cut()
        terminal.wait_for(lambda terminal: re.search(r" lost for \d+ s .*its connection ended", terminal.row(-1)))
        status, said = ended(terminal, home)
        assert status == 8
        assert "its process or its network is gone" in said
        late = open_terminal(attach_command("0"))
        assert late.exit_status() == 1
        assert "its process or its network is gone" in " ".join(late.screen)
        assert rank.exit_status is None


def silence(terminal: Terminal) -> int:
    """Return the seconds of silence that the status line shows; 0 if it shows none."""
    found = re.search(r":0  silent for (\d+) s ", terminal.row(-1))
    return int(found[1]) if found else 0


class TestSuspendedRank:
    def test_keeps_its_terminal_which_says_since_when_and_goes_on(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0")
        rank.signal(signal.SIGSTOP)
        terminal.wait_for(silence)
        assert DRAWN in "\n".join(terminal.screen)
        assert attach_list(home)[0]["state"] == "unresponsive"
        seconds_shown = silence(terminal)
        terminal.wait_for(lambda terminal: silence(terminal) > seconds_shown)
        terminal.send("n")
        rank.signal(signal.SIGCONT)
        wait_for_line(terminal, STOP + 1)
        assert line_after_all_keys(terminal, home) == STOP + 1
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0

    def test_can_be_left_and_attached_to_again(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0")
        rank.signal(signal.SIGSTOP)
        terminal.wait_for(lambda terminal: "silent for" in terminal.row(-1))
        terminal.send("\x1dd")
        assert terminal.exit_status() == 0
        again = open_terminal(attach_command("0"), 30, 110)
        again.wait_for(re.compile(r":0 does not answer\.\n.*comes back here when it does"))
        again.wait_for(lambda terminal: "silent for" in terminal.row(-1))
        rank.signal(signal.SIGCONT)
        again.wait_for(DRAWN)
        again.send("n")
        wait_for_line(again, STOP + 1)

    def test_killed_while_suspended_ends_the_terminal(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_one(processes, home)
        terminal = attach_with_own_settings(open_terminal, home)
        rank.signal(signal.SIGSTOP)
        terminal.wait_for(lambda terminal: "silent for" in terminal.row(-1))
        rank.kill()
        status, said = ended(terminal, home)
        assert status == 8
        assert " died: " in said or " was killed by SIGKILL" in said, said


class TestExitStatus:
    """Each exit status that the command's help lists; tests above cover 7 and 8 as well."""

    def test_0_detached(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_one(processes, home)
        terminal = attach_with_own_settings(open_terminal, home)
        terminal.send("\x1d.")
        status, said = ended(terminal, home)
        assert (status, said.startswith("Detached from ")) == (0, True)

    def test_1_running_names_what_to_do(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_running(processes, home)
        terminal = open_terminal(attach_command("0"), 24, 160)
        assert terminal.exit_status() == 1
        waits, breaks_in = "`dbg-attach wait 0` waits for the next stop", "`dbg-attach interrupt 0` breaks in now"
        assert re.match(rf"dbg-attach: .*:0 is running; {waits}, {breaks_in}$", terminal.row(0))

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("--nonsense",), "there is no option --nonsense"),
            (("list", "gpu["), "gpu["),
            (("--watch", "--take", "0"), "--watch looks only and --take takes the keyboard"),
            (("--escape", "^C", "0"), "'^C' can't be used"),
            (("wait", "0", "--for", "soon"), "--for 'soon' is no"),
            (("--json", "0"), "attach has no option --json; list, where and why have it"),
            (("0,1",), "fits several ranks"),
        ],
    )
    def test_2_usage_or_ambiguous(
        self, arguments: tuple[str, ...], says: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        if arguments == ("0,1",):
            start_ranks(processes, home, SCRIPT, 2)
            wait_until_stopped(home, 2)
        terminal = open_terminal(attach_command(*arguments), 24, 120)
        assert terminal.exit_status() == 2
        text = " ".join(row for row in terminal.screen if row)
        assert text.startswith("dbg-attach: ")
        assert says in text
        assert b"\x1b" not in terminal.output.replace(b"\x1b_command ended\x1b\\", b"")

    def test_2_without_a_terminal(self, processes: Processes, home: Path) -> None:
        start_one(processes, home)
        result = attach(home, "0")
        assert result.returncode == 2
        assert result.stdout == ""
        assert result.stderr.startswith("dbg-attach: stdin is not a terminal, and attaching needs one; use `screen`")

    def test_2_a_question_without_a_terminal(self, processes: Processes, home: Path) -> None:
        rank = start_one(processes, home)
        result = attach(home, "kill", "0")
        assert result.returncode == 2
        assert "-y" in result.stderr
        assert rank.exit_status is None

    @pytest.mark.parametrize("target", ["7", "nowhere:0", ":3", "other-job/0"])
    def test_3_no_such_rank(self, target: str, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_one(processes, home)
        terminal = open_terminal(attach_command(target), 24, 120)
        assert terminal.exit_status() == 3
        assert f"no rank fits '{target}'" in terminal.row(0)

    def test_4_no_broker(self, broker: RunningBroker, open_terminal: OpenTerminal) -> None:
        url = broker.url
        broker.kill()
        terminal = open_terminal(attach_command("0"), 24, 120)
        assert terminal.exit_status() == 4
        assert url in " ".join(terminal.screen)

    def test_4_no_broker_was_ever_started(self, tmp_path: Path, open_terminal: OpenTerminal) -> None:
        terminal = open_terminal(attach_command("0"), 24, 120, env={**os.environ, "DBG_HOME": str(tmp_path / "none")})
        assert terminal.exit_status() == 4
        assert "dbg-broker serve" in " ".join(terminal.screen)

    def test_5_wrong_token(self, open_terminal: OpenTerminal) -> None:
        terminal = open_terminal(attach_command("0"), 24, 120, env={**os.environ, "DBG_TOKEN": "wrong" * 8})
        assert terminal.exit_status() == 5
        assert "token" in " ".join(terminal.screen)
        assert "wrongwrong" not in " ".join(terminal.screen)

    def test_5_another_broker_than_the_one_pinned(self, broker: RunningBroker, open_terminal: OpenTerminal) -> None:
        address = f"127.0.0.1:{broker.port}#sha256:{'0' * 64}"
        terminal = open_terminal(attach_command("0", "--broker", address), 24, 120)
        assert terminal.exit_status() == 5
        assert "is not the broker that was pinned" in " ".join(terminal.screen)

    def test_6_timed_out(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_running(processes, home)
        terminal = open_terminal(attach_command("wait", "0", "--for", "0.3"), 24, 120)
        assert terminal.exit_status() == 6
        assert terminal.row(1) == "dbg-attach: 0 did not stop within 0.3 s"

    def test_7_the_rank_went_on(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        rank = start_one(processes, home, WAITS="1")
        terminal = attach_with_own_settings(open_terminal, home)
        assert attach(home, "continue", "0").returncode == 0
        status, said = ended(terminal, home)
        assert status == 7
        assert re.fullmatch(r'[a-z0-9-]+:0 went on: "[^"]+@[^"]+" let it go on; --follow waits for its next stop', said)
        rank.signal(signal.SIGUSR1)
        assert rank.wait() == 0

    def test_8_had_exited_before(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        rank = start_one(processes, home, ENDS="1 / 0")
        assert attach(home, "continue", "0").returncode == 0
        assert rank.wait() == 1
        wait_for_state(home, "exited")
        terminal = open_terminal(attach_command("0"))
        assert terminal.exit_status() == 8
        assert terminal.row(0).endswith(":0 has exited with status 1")

    def test_130_interrupted_while_waiting(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_running(processes, home)
        terminal = open_terminal(with_own_settings(home, attach_command("wait", "0")))
        terminal.wait_for("Ctrl-C gives up")
        terminal.send("\x03")
        status, _ = ended(terminal, home)
        assert status == 130
