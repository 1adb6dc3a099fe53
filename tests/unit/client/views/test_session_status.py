"""What the status line says of one terminal's session."""

from __future__ import annotations

import pytest

from dbg_client.attachment.attachment import Attachment
from dbg_client.views.status_line import LONG_STEP_SECONDS, Others, Status, count_others, status_of
from dbg_wire.messages import Mode, Pulse, RankReport, Report, Seat, StopInfo, Waiting
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import HERE, make_pdb_report, make_prompt, make_rank, make_report

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


def attached(report: RankReport | None = None) -> Attachment:
    attachment = Attachment(make_rank(), Mode.DRIVE, (23, 80), colors=256)
    attachment.attach()
    seat = Seat(rank=make_rank(), report=report or make_report(), generation=1, driver="me@here", watchers=0)
    attachment.message(seat, 0.0)
    return attachment


def status(attachment: Attachment, now: float = 0.0) -> Status:
    return status_of(attachment, Others(), now, prefix="Ctrl-]", pending=False)


def test_a_stop_shows_its_place() -> None:
    shown = status(attached())

    assert (shown.address, shown.state, shown.place, shown.since) == (
        "gpu013:5",
        "stopped",
        "train.py:41 in step",
        None,
    )


def test_a_long_step_shows_where_the_rank_is() -> None:
    attachment = attached()
    attachment.message(Report(report=make_report(state=RankState.RUNNING, stepping=True)), 10.0)
    attachment.message(Pulse(where=Place(file="/x/data.py", line=61, function="next_batch")), 11.0)

    assert status(attachment, 12.0).since is None
    later = status(attachment, 10.0 + LONG_STEP_SECONDS)
    assert (later.state, later.since, later.place) == ("running", LONG_STEP_SECONDS, "data.py:61 in next_batch")


def test_a_step_that_went_into_a_collective_says_what_it_waits_for() -> None:
    attachment = attached()
    attachment.message(Report(report=make_report(state=RankState.RUNNING, stepping=True)), 10.0)
    place = Place(file="/x/torch/distributed/distributed_c10d.py", line=1, function="all_reduce")
    attachment.message(Pulse(where=place, frames=(HERE, place)), 11.0)

    def waits(others: Others) -> str:
        return status_of(attachment, others, 14.0, prefix="", pending=False).waits

    assert waits(Others(stopped=3)) == "waits in all_reduce for 3 stopped ranks"
    assert waits(Others()) == ""
    attachment.message(Report(report=make_report()), 15.0)
    assert waits(Others(stopped=3)) == ""
    # A rank that goes on without a stop is not known to wait: its next pulse may be of another moment.
    attachment.message(Report(report=make_report(None, breakpoints=1)), 16.0)
    attachment.message(Pulse(where=place, frames=(HERE, place)), 17.0)
    assert waits(Others(stopped=3)) == ""


def stepping(others: Others, now: float) -> Status:
    moving = make_report(state=RankState.RUNNING, stepping=True)
    attachment = attached(moving)
    return status_of(attachment, others, now, prefix="Ctrl-]", pending=False)


def test_who_steps_while_others_are_held_is_told_what_a_collective_would_do(approved: Approved) -> None:
    notices = stepping(Others(held=3), LONG_STEP_SECONDS).notices

    approved(notices[0])
    assert [*notices] == sorted(notices, key=len, reverse=True)
    assert all("Ctrl-] : release" in notice for notice in notices)


def test_nobody_is_said_to_wait_for_this_rank_where_it_may_be_for_another() -> None:
    notices = stepping(Others(stopped=1, held=1), LONG_STEP_SECONDS).notices

    assert notices[0].startswith("1 held rank waits; ")


@pytest.mark.parametrize(("others", "now"), [(Others(held=3), LONG_STEP_SECONDS - 0.1), (Others(stopped=3), 60.0)])
def test_a_short_step_and_one_that_nobody_waits_for_give_no_advice(others: Others, now: float) -> None:
    assert stepping(others, now).notices == ()


def test_a_held_rank_shows_whom_it_waits_for() -> None:
    held = make_report(None, state=RankState.HELD, waits=Waiting(site="train.py:7", count=1, ranks=(0, 1, 5)))

    assert status(attached(held)).notices[0] == "waits for ranks 0-1,5"


@pytest.mark.parametrize(
    ("report", "advice"), [(make_report(), "q lets it end"), (make_pdb_report(make_prompt()), "c or q lets it end")]
)
def test_a_crash_shows_its_exception_and_how_to_end_it(report: RankReport, advice: str) -> None:
    stop = StopInfo(number=1, reason="crash", where=HERE, age=0.0, thread="MainThread", detail="ValueError: bad")
    shown = status(attached(report.replace(stop=stop)))

    assert (shown.state, shown.detail, shown.notices) == ("crashed", "ValueError: bad", (advice,))


def test_the_first_clock_that_rings_is_shown_while_the_rank_is_stopped() -> None:
    clock = "gloo collectives that wait for it time out in 30 min"
    report = make_report()
    assert report.stop is not None
    stopped = report.replace(stop=report.stop.replace(detail=clock))

    assert status(attached(stopped)).detail == clock
    assert status(attached(stopped.replace(state=RankState.RUNNING, stepping=True))).detail == ""


def test_a_silent_rank_shows_since_when() -> None:
    attachment = attached()
    attachment.message(Pulse(where=None), 4.0)
    attachment.rank_listed(make_rank(state=RankState.UNRESPONSIVE), 8.0)

    shown = status(attachment, 10.0)

    assert (shown.state, shown.since) == ("unresponsive", 6.0)


def test_a_broken_line_shows_so_until_the_rank_is_back() -> None:
    attachment = attached()
    attachment.link_down("it shut down", 1.0)
    down = status(attachment, 3.0)
    attachment.link_up(4.0)
    away = status(attachment, 5.0)

    assert (down.state, down.since) == ("broker gone", 2.0)
    assert "reconnecting" in down.notices[0]
    assert (away.state, away.since) == ("away", 1.0)


def test_a_silent_broker_shows_since_when_and_not_what_the_rank_was_last_known_to_do() -> None:
    attachment = attached()
    attachment.away.broker_silent_since = 1.0

    silent = status(attachment, 6.0)
    attachment.link_down("it shut down", 7.0)

    assert (silent.state, silent.since) == ("broker silent", 5.0)
    assert "keys are kept" in silent.notices[0]
    assert status(attachment, 8.0).state == "broker gone"


def test_a_lost_rank_shows_since_when() -> None:
    attachment = attached()
    attachment.rank_listed(make_rank(state=RankState.LOST), 1.0)

    assert (status(attachment, 4.0).state, status(attachment, 4.0).since) == ("lost", 3.0)


def test_others_are_those_of_the_job() -> None:
    ranks = [make_rank(5), make_rank(6), make_rank(7, state=RankState.HELD), make_rank(0, job="other", key="other")]

    assert count_others(make_rank(5), ranks) == Others(stopped=1, held=1)
