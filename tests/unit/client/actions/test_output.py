"""What is made of the answers of ranks that were asked for their stops."""

from __future__ import annotations

from pathlib import Path

from dbg_client.actions.output import fits, in_place, is_usable
from dbg_client.actions.why import tell_of_hang
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_wire.messages import Hang, Message
from dbg_wire.records.ranks import RankState
from tests.support.screen import VirtualScreen
from tests.unit.client.fake_broker import make_rank


def test_a_screen_is_replaced_whatever_stood_there() -> None:
    screen = VirtualScreen(6, 20)
    screen.feed(b"junk " * 40)

    screen.feed(in_place(["one", "x" * 50, "three"], 6).encode())
    assert screen.rows == ["one", "x" * 20, "three", "", "", ""]
    screen.feed(in_place(["uno"], 6).encode())
    assert screen.rows == ["uno", "", "", "", "", ""]
    screen.feed(b"y" * 21)
    assert screen.rows[1:3] == ["y" * 20, "y"]


def test_what_a_screen_has_no_room_for_is_counted() -> None:
    screen = VirtualScreen(6, 20)

    screen.feed(in_place([str(number) for number in range(100)], 6).encode())

    assert screen.rows == ["0", "1", "2", "3", "… 96 more lines", ""]


def verdict(kind: VerdictKind, job: str = "a", **fields: object) -> Verdict:
    return Verdict(**{"kind": kind, "job": job, "sentence": f"it is {kind.value}", **fields})  # type: ignore[arg-type]


def test_the_worst_verdict_on_each_job_is_sent() -> None:
    sent: list[Message] = []
    verdicts = [
        verdict(VerdictKind.MISSING, ranks=(3, 4, 5), sentence="rank\x1b is missing"),
        verdict(VerdictKind.DEAD),
        verdict(VerdictKind.STUCK, job="b"),
        verdict(VerdictKind.BUSY, job="c"),
        verdict(VerdictKind.UNKNOWN, job="d"),
    ]
    tell_of_hang(sent.append, verdicts)
    assert sent == [
        Hang(job="a", kind="missing", sentence="rank\\x1b is missing", ranks="3-5"),
        Hang(job="b", kind="stuck", sentence="it is stuck"),
    ]


def test_ranks_that_somebody_has_stopped_are_no_hang() -> None:
    sent: list[Message] = []
    known = [make_rank(3, job="a"), make_rank(4, job="a", state=RankState.RUNNING)]
    tell_of_hang(sent.append, [verdict(VerdictKind.WAITING, ranks=(3,))], known)
    assert sent == []
    tell_of_hang(sent.append, [verdict(VerdictKind.WAITING, ranks=(3, 4))], known)
    assert len(sent) == 1


def test_a_hang_without_a_known_cause_is_sent_if_no_rank_moves() -> None:
    sent: list[Message] = []
    tell_of_hang(
        sent.append,
        [verdict(VerdictKind.UNKNOWN, job="d"), verdict(VerdictKind.BUSY, job="c")],
        stands=True,
    )
    assert sent == [Hang(job="d", kind="unknown", sentence="it is unknown")]


def test_a_pager_needs_a_cursor_and_less_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "less").write_text("#!/bin/sh\n")
    (tmp_path / "less").chmod(0o700)
    there = {"TERM": "xterm", "PATH": str(tmp_path)}

    assert is_usable("less", there)
    assert not is_usable("less", {**there, "PATH": "/nowhere"})
    assert is_usable("more", there)
    assert not is_usable("cat", there)
    assert not is_usable("", there)
    assert not is_usable("more", {**there, "TERM": "dumb"})


def test_what_fits_leaves_a_row_for_the_prompt() -> None:
    assert fits("line\n" * 23, 24, 80)
    assert not fits("line\n" * 24, 24, 80)
    assert not fits("x" * 81 + "\n" + "line\n" * 22, 24, 80)
    assert fits("\x1b[31m" * 100 + "x\n" + "line\n" * 22, 24, 80)
