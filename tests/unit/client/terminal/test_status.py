"""The status line of one terminal's session."""

from __future__ import annotations

from dataclasses import replace

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from dbg_client.seat.attachment import Attachment
from dbg_client.terminal.status_line import (
    LONG_STEP_SECONDS,
    Others,
    Status,
    paint,
    render,
    status_of,
)
from dbg_client.views.table import text_width
from dbg_wire.messages import Mode, ProbeReply, RankReport, Report, Seat, StopInfo
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import HERE, make_pdb_report, make_prompt, make_rank, make_report

STOPPED = Status(address="gpu013:5", state="stopped", place="train.py:41 in step", others=Others(stopped=3))

foreign = st.text(max_size=30) | st.sampled_from(
    ["gpu013:5", "日本語", "é\u0301", "☎\ufe0f" * 9, "\x1b[2J", "a\nb", "…" * 9]
)
statuses = st.builds(
    Status,
    address=foreign,
    state=st.sampled_from(["running", "stopped", "held", "unresponsive", "lost", "exited"]),
    place=st.none() | foreign,
    since=st.none() | st.floats(0, 1e6),
    others=st.builds(Others, st.integers(0, 2000), st.integers(0, 2000)),
    driving=st.booleans(),
    driver=st.none() | foreign,
    detail=foreign,
    notice=foreign,
    prefix=st.sampled_from(["Ctrl-]", ""]),
    pending=st.booleans(),
    cropped=st.booleans(),
)


@pytest.mark.parametrize("columns", [110, 60])
def test_a_crash_shows_as_much_of_its_exception_as_fits(approved: Approved, columns: int) -> None:
    crashed = replace(STOPPED, state="crashed", detail="ValueError: loss is nan", notice="q ends it")

    approved(render(crashed, columns))


@pytest.mark.parametrize("columns", [100, 80, 60, 40, 12, 0])
def test_a_narrow_line_drops_the_least_important_parts_first(approved: Approved, columns: int) -> None:
    line = render(STOPPED, columns)

    assert text_width(line) <= max(0, columns - 1)
    approved(line)


@pytest.mark.parametrize(
    ("state", "since", "expected"),
    [
        ("unresponsive", 12.9, "silent for 12 s"),
        ("unresponsive", None, "silent"),
        ("running", 119.0, "running for 119 s"),
        ("held", 125.0, "held for 2 min"),
        ("lost", 7260.0, "lost for 2 h"),
        ("stopped", 5.0, "stopped"),
        ("exited", 5.0, "exited"),
    ],
)
def test_the_state_shows_its_duration_where_useful(state: str, since: float | None, expected: str) -> None:
    line = render(Status(address="h:0", state=state, since=since), 100)
    assert line.startswith(f" h:0  {expected}  ")


def test_a_wait_for_others_replaces_the_state_and_their_number() -> None:
    waiting = Status(address="h:0", state="running", since=14.0, waits_in="all_reduce", others=Others(stopped=3))
    line = render(waiting, 100)
    assert line.startswith(" h:0  waits in all_reduce for 3 stopped ranks  ")
    assert "others" not in line
    assert "running" not in line


@pytest.mark.parametrize(
    ("stopped", "held", "expected"),
    [
        (1, 0, "others: 1 stopped"),
        (0, 5, "others: 5 held"),
        (3, 5, "others: 3 stopped, 5 held"),
        (0, 0, "step   "),
    ],
)
def test_other_stopped_and_held_ranks_are_counted(stopped: int, held: int, expected: str) -> None:
    assert f"  {expected} " in render(replace(STOPPED, others=Others(stopped, held)), 120).replace("in", " ")


def test_the_line_lists_the_keys_after_the_prefix(approved: Approved) -> None:
    pending = replace(STOPPED, pending=True, notice="keys were discarded")
    assert "Ctrl-], then: d detach" in render(pending, 160)
    approved(render(pending, 160))
    approved(render(pending, 60).rstrip(), "2")


def test_control_characters_in_foreign_text_are_escaped() -> None:
    line = render(Status(address="h\x1b]0;x\x07:1", state="stopped", place="a\nb\u202e", notice="\x9b6n"), 200)
    assert "h\\x1b]0;x\\x07:1" in line
    assert "a\\nb\\u202e" in line
    assert "\\x9b6n" in line


@given(statuses, st.integers(-1, 300))
def test_the_line_is_one_column_narrower_than_the_screen(status: Status, columns: int) -> None:
    line = render(status, columns)
    assert line.isprintable()
    assert "\ufe0f" not in line
    assert get_cwidth(line) <= text_width(line) == max(0, columns - 1)


@given(statuses)
@example(Status(address="h:0", state="stopped", notice="🇦🇦"))
@example(Status(address="h:0", state="stopped", notice="☎\ufe0f"))
def test_painting_changes_only_one_row(status: Status) -> None:
    screen = pyte.Screen(60, 10)
    stream = pyte.ByteStream(screen)
    stream.feed(b"\x1b[31mtop\r\n\x1b[5;7H\x1b(0\x0equ")
    before = screen.display[:9]
    x, y, attributes = screen.cursor.x, screen.cursor.y, screen.cursor.attrs
    stream.feed(paint(render(status, 60), 10))
    assert screen.display[:9] == before
    assert (screen.cursor.x, screen.cursor.y, screen.cursor.attrs) == (x, y, attributes)


def test_the_line_is_painted_inverse_in_any_mode_of_the_rank() -> None:
    screen = pyte.Screen(100, 10)
    pyte.ByteStream(screen).feed(
        b"\x1b%@\x1b[10;1H" + b"x" * 100 + b"\x1b[31m\x1b(0\x1b)0\x0e" + paint(render(STOPPED, 100), 10)
    )
    assert screen.display[9] == render(STOPPED, 100) + " "
    assert {screen.buffer[9][column].reverse for column in range(99)} == {True}
    assert screen.buffer[9][0].fg == "default"


@pytest.mark.parametrize(("others", "now"), [(Others(held=3), LONG_STEP_SECONDS - 0.1), (Others(stopped=3), 60.0)])
def test_a_short_step_and_one_without_held_ranks_give_no_advice(others: Others, now: float) -> None:
    assert stepping(others, now).notice == ""


RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


def attached(report: RankReport | None = None) -> Attachment:
    attachment = Attachment(make_rank(), Mode.DRIVE, (23, 80), colors=256)
    attachment.attach()
    seat = Seat(rank=make_rank(), report=report or make_report(), generation=1, driver="me@here", watchers=0)
    attachment.message(seat, 0.0)
    return attachment


def status(attachment: Attachment, now: float = 0.0) -> Status:
    return status_of(attachment, Others(), now, prefix="Ctrl-]", pending=False)


def test_a_long_step_shows_where_the_rank_is() -> None:
    attachment = attached()
    attachment.message(Report(report=make_report(state=RankState.RUNNING, stepping=True)), 10.0)
    attachment.message(ProbeReply(where=Place(file="/x/data.py", line=61, function="next_batch")), 11.0)

    assert status(attachment, 12.0).since is None
    later = status(attachment, 10.0 + LONG_STEP_SECONDS)
    assert (later.state, later.since, later.place) == ("running", LONG_STEP_SECONDS, "data.py:61 in next_batch")


def test_a_step_into_a_collective_shows_what_it_waits_for() -> None:
    attachment = attached()
    attachment.message(Report(report=make_report(state=RankState.RUNNING, stepping=True)), 10.0)
    place = Place(file="/x/torch/distributed/distributed_c10d.py", line=1, function="all_reduce")
    attachment.message(ProbeReply(where=place, frames=(HERE, place)), 11.0)

    def waits(others: Others) -> str:
        return render(status_of(attachment, others, 14.0, prefix="", pending=False), 80)

    waits_for = "waits in all_reduce for 3 stopped ranks"
    assert waits_for in waits(Others(stopped=3))
    assert "waits" not in waits(Others())
    attachment.message(Report(report=make_report()), 15.0)
    assert "waits" not in waits(Others(stopped=3))
    # A rank that goes on without a stop is not known to wait: its next pulse may be of another moment.
    attachment.message(Report(report=make_report(None, breakpoints=1)), 16.0)
    attachment.message(ProbeReply(where=place, frames=(HERE, place)), 17.0)
    assert "waits" not in waits(Others(stopped=3))


def stepping(others: Others, now: float) -> Status:
    moving = make_report(state=RankState.RUNNING, stepping=True)
    attachment = attached(moving)
    return status_of(attachment, others, now, prefix="Ctrl-]", pending=False)


def test_a_long_step_with_held_ranks_warns_of_collectives(approved: Approved) -> None:
    approved(stepping(Others(held=3), LONG_STEP_SECONDS).notice)


@pytest.mark.parametrize("report", [make_report(), make_pdb_report(make_prompt())], ids=["pudb", "pdb"])
def test_a_crash_shows_its_exception_and_how_to_end_it(approved: Approved, report: RankReport) -> None:
    stop = StopInfo(number=1, reason="crash", where=HERE, age=0.0, thread="MainThread", error="ValueError: bad")
    shown = status(attached(report.replace(stop=stop)))

    assert (shown.state, shown.detail) == ("crashed", "ValueError: bad")
    approved(shown.notice)


def test_a_silent_rank_shows_the_duration_of_its_silence() -> None:
    attachment = attached()
    attachment.message(ProbeReply(where=None), 4.0)
    attachment.rank_listed(make_rank(state=RankState.UNRESPONSIVE), 8.0)

    shown = status(attachment, 10.0)

    assert (shown.state, shown.since) == ("unresponsive", 6.0)


def test_a_broken_link_is_shown_until_the_rank_is_back() -> None:
    attachment = attached()
    attachment.link_down("it shut down", 1.0)
    down = status(attachment, 3.0)
    attachment.link_up(4.0)
    away = status(attachment, 5.0)

    assert (down.state, down.since) == ("broker gone", 2.0)
    assert "reconnecting" in down.notice
    assert (away.state, away.since) == ("away", 1.0)


def test_a_silent_broker_replaces_the_last_known_state_of_the_rank() -> None:
    attachment = attached()
    attachment.away.broker_silent_since = 1.0

    silent = status(attachment, 6.0)
    attachment.link_down("it shut down", 7.0)

    assert (silent.state, silent.since) == ("broker silent", 5.0)
    assert "keys are kept" in silent.notice
    assert status(attachment, 8.0).state == "broker gone"


def at_pdb(report: RankReport, generation: int | None = 1) -> Attachment:
    attachment = Attachment(make_rank(), Mode.DRIVE, (24, 80), colors=256, prefix="Ctrl-]")
    seat = Seat(rank=make_rank(), report=report, generation=generation, driver="me@here", watchers=0)
    attachment.message(seat, 0.0)
    return attachment


@pytest.mark.parametrize(
    ("report", "generation", "address", "interrupts"),
    [
        (make_pdb_report(make_prompt()), 1, "gpu013:5", False),
        (make_pdb_report(None), 1, "gpu013:5", True),
        (make_pdb_report(None), None, "gpu013:5", False),
        (make_report(session=None), 1, "gpu013:5", False),
        (make_pdb_report(None, state=RankState.RUNNING, stepping=True), 1, "gpu013:5", True),
        (make_pdb_report(None, state=RankState.RUNNING, stepping=True, queued=2), 1, "gpu013:5", True),
        (RankReport(state=RankState.RUNNING, breakpoints=1), 1, "gpu013:5", True),
    ],
    ids=["prompt", "no prompt", "watched", "no session", "stepping", "queued", "running"],
)
def test_the_toolbar_names_the_useful_keys(
    approved: Approved, report: RankReport, generation: int | None, address: str, *, interrupts: bool
) -> None:
    attachment = at_pdb(report, generation)
    attachment.rank = make_rank(address=address)
    line = render(status_of(attachment, Others(), 0.0, prefix="Ctrl-]", pending=False), 120)

    assert text_width(line) == 119
    assert ("Ctrl-C" in line) == interrupts
    approved(line)
