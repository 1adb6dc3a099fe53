from __future__ import annotations

from collections.abc import Sequence

from dbg_client.views.report import Asked, Terminal, show_report
from dbg_wire.messages import Welcome
from dbg_wire.records.ranks import DIED, RankInfo, RankState
from tests.unit.client.fake_broker import make_rank

NOW = 1760000060.0
WELCOME = Welcome(minor=1, release="0.2.0", host="login1", pid=4711, uptime=312.0)


def report(*ranks: RankInfo, welcome: Welcome | None = WELCOME, target: str | None = None) -> str:
    asked = Asked(
        ranks=ranks,
        welcome=welcome,
        url="wss://login1:6899#sha256:abc",
        stacks="where: 2 of 2\n├─ 1 [0] step train.py:41\n",
        verdict="4711.0: 3 of 4 ranks wait in all_reduce #5\n  2  running\n",
        code=["file model.py  11: 0; 22: 1"],
        target=target,
        now=NOW,
        moment="2026-11-22 12:00:00 +0000",
    )
    return show_report(asked, Terminal(python="3.11.7", system="Linux 6.1"))


def section(text: str, title: str) -> Sequence[str]:
    """Return the lines of a section, without their indentation."""
    behind = text.partition(f"\n{title}\n")[2]
    return [line.strip() for line in behind.partition("\n\n")[0].strip().split("\n")]


def test_versions_of_terminal_broker_and_agents_are_told() -> None:
    text = report(make_rank(0, release="0.2.0", python="3.12.1"), make_rank(1, release="0.1.0", python="3.11.7"))

    terminal, broker, first, second = section(text, "Versions")
    assert terminal.startswith("terminal  dbg-attach 0.")
    assert terminal.endswith("Python 3.11.7, Linux 6.1")
    assert broker == "broker    0.2.0, protocol 1.1"
    assert {first, second} == {
        "ranks     agent 0.2.0, Python 3.12.1: 0",
        "ranks     agent 0.1.0, Python 3.11.7: 1",
    }
    assert section(text, "Broker") == ["wss://login1:6899, pid 4711 on login1, up for 5 min"]
    assert section(text, "Why it hangs") == ["4711.0: 3 of 4 ranks wait in all_reduce #5", "2  running"]
    assert section(text, "Stacks")[1] == "├─ 1 [0] step train.py:41"


def test_a_broker_that_is_away_is_named_by_its_address() -> None:
    assert section(report(make_rank(0), welcome=None), "Broker") == ["wss://login1:6899"]


def test_dead_and_missing_ranks_are_told() -> None:
    ranks = [
        make_rank(0, world_size=6),
        make_rank(1, world_size=6, state=RankState.EXITED, exit=-11, since=NOW - 3, detail="core in /tmp/core.1"),
        make_rank(2, world_size=6, state=RankState.EXITED, exit=None, reason=DIED, since=NOW - 4),
        make_rank(3, world_size=6, state=RankState.EXITED, exit=0),
    ]

    lines = section(report(*ranks), "Job 4711.0, run 0.0")

    assert lines == [
        "4 ranks are known, the world size is 6; 1 host; 1 stopped, 3 exited",
        "never connected: 4-5",
        "gpu013:1 was killed by SIGSEGV (core in /tmp/core.1), 3 s ago",
        "gpu013:2 died, 4 s ago",
    ]


def test_what_differs_is_grouped_and_what_is_the_same_is_not_told() -> None:
    same = section(report(make_rank(0), make_rank(1)), "What differs between ranks")
    other = make_rank(2, directory="/other", python="3.10.1")
    different = section(report(make_rank(0), make_rank(1), other), "What differs between ranks")

    code = "file model.py  11: 0; 22: 1"
    assert same == ["script, directory, Python, agent and world size are the same", code]
    directories, versions = (
        ["directory /home/me: 0-1", "directory /other: 2"],
        ["Python 3.11.7: 0-1", "Python 3.10.1: 2"],
    )
    assert different == [*directories, *versions, code]


def test_time_limits_are_told_once_for_the_ranks_that_have_the_same() -> None:
    limit = "the 600 s of a collective end in 9 min"
    text = report(make_rank(0, detail=limit), make_rank(1, detail=limit))

    assert section(text, "Time limits and other details of stops") == [f"{limit}: all 2"]


def test_many_ranks_are_folded_by_host_and_state() -> None:
    listed = section(report(*(make_rank(number, host=f"h{number // 50}") for number in range(100))), "Ranks")

    assert [line.split()[:4] for line in listed[1:]] == [["+", "h0:*", "50", "ranks"], ["+", "h1:*", "50", "ranks"]]


def test_secrets_and_control_characters_are_taken_out() -> None:
    text = report(make_rank(0, detail="ValueError: token=abcdefgh1234\x1b[31m"), target="\x1b[2J")

    assert "abcdefgh1234" not in text
    assert "\x1b" not in text


def test_without_ranks_it_says_so() -> None:
    text = report()

    assert section(text, "Ranks") == ["no rank has connected"]
    assert section(text, "Stacks") == ["no rank to ask"]
