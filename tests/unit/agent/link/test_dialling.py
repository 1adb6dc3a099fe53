"""When the link's peer is silent, by a clock that the test turns; for how long a rank waits before it dials again."""

from __future__ import annotations

from collections.abc import Callable

from dbg_agent.link.dialling import (
    FIRST_BACKOFF_SECONDS,
    LAST_BACKOFF_SECONDS,
    LAST_HUNG_UP_SECONDS,
    LAST_OPEN_SECONDS,
    OPEN_SECONDS,
    PING_ATTENDED_SECONDS,
    PING_SECONDS,
    SHORTEST_LOOK_SECONDS,
    Dialler,
    Silence,
)
from dbg_agent.link.lookup import Lookups
from dbg_wire.errors import BrokerUnreachable, Busy, HungUp
from dbg_wire.finding.endpoint import Reach
from dbg_wire.limits import SILENT_SECONDS

NOW = 1000.0


def test_a_peer_whose_kernel_answers_is_not_silent_although_it_says_nothing() -> None:
    silence = Silence(NOW)
    assert not silence.is_silent(NOW + 60, since_ack=2.0)


def test_a_kernel_that_does_not_answer_is_silence_and_only_a_byte_ends_it() -> None:
    silence = Silence(NOW)
    assert silence.is_silent(NOW + 5, since_ack=SILENT_SECONDS)
    assert silence.is_silent(NOW + 6, since_ack=0.0)
    assert silence.wants_ping(NOW + 6, attended=False)
    silence.heard(NOW + 7)
    assert not silence.is_silent(NOW + 7, since_ack=0.0)


def test_a_ping_without_an_answer_is_silence_though_a_tunnel_acknowledges() -> None:
    silence = Silence(NOW)
    assert not silence.wants_ping(NOW + 1, attended=True)
    assert silence.wants_ping(NOW + PING_ATTENDED_SECONDS, attended=True)
    asked = NOW + PING_ATTENDED_SECONDS
    assert not silence.wants_ping(asked + 1, attended=True)
    assert not silence.is_silent(asked + SILENT_SECONDS - 0.1, since_ack=0.0)
    assert silence.is_silent(asked + SILENT_SECONDS, since_ack=0.0)


def test_what_is_heard_puts_off_the_next_ping() -> None:
    silence = Silence(NOW)
    silence.heard(NOW + 1)
    assert not silence.wants_ping(NOW + PING_ATTENDED_SECONDS, attended=True)
    assert silence.wants_ping(NOW + 1 + PING_ATTENDED_SECONDS, attended=True)


def test_a_rank_at_which_nobody_sits_looks_seldom_and_pings_rarely() -> None:
    silence = Silence(NOW)
    assert silence.next_look(NOW, 0.5, attended=False) == SILENT_SECONDS - 0.5
    assert not silence.wants_ping(NOW + PING_SECONDS - 0.1, attended=False)
    assert silence.wants_ping(NOW + PING_SECONDS, attended=False)
    assert silence.next_look(NOW, SILENT_SECONDS + 1, attended=False) == SHORTEST_LOOK_SECONDS


async def nowhere() -> Reach:
    raise NotImplementedError


def dialler(world_size: int = 1) -> Dialler:
    return Dialler(nowhere, lambda: False, Lookups(), lambda: world_size)


def longest(pauses: Callable[[], float]) -> float:
    return max(pauses() for _ in range(200))


def test_the_ranks_of_a_small_job_dial_at_once_and_those_of_a_large_one_one_after_another() -> None:
    assert longest(dialler(64).first_pause) == 0.0
    assert 0.4 < longest(dialler(5000).first_pause) <= 0.5
    assert 1.5 < longest(dialler(100_000).first_pause) <= LAST_BACKOFF_SECONDS
    assert 1.5 < longest(lambda: dialler(100_000).pause(None)) <= 2 * LAST_BACKOFF_SECONDS
    assert longest(lambda: dialler(8).pause(None)) <= FIRST_BACKOFF_SECONDS


def test_a_broker_that_hangs_up_is_dialled_ever_more_rarely_and_one_that_is_away_is_not() -> None:
    hung_up, away = dialler(), dialler()
    for _ in range(20):
        hung_up.pause(HungUp("wss://h:1"))
        away.pause(BrokerUnreachable("wss://h:1", "refused"))
    assert LAST_BACKOFF_SECONDS < longest(lambda: hung_up.pause(HungUp("wss://h:1"))) <= LAST_HUNG_UP_SECONDS
    assert longest(lambda: away.pause(BrokerUnreachable("wss://h:1", "refused"))) <= LAST_BACKOFF_SECONDS


def test_ranks_of_a_large_job_that_are_turned_back_come_as_fast_as_a_busy_broker_serves_them() -> None:
    assert 3.5 < longest(lambda: dialler(2_000).pause(HungUp("wss://h:1"))) <= 4.0
    assert 15.0 < longest(lambda: dialler(20_000).pause(HungUp("wss://h:1"))) <= LAST_HUNG_UP_SECONDS


def test_a_busy_broker_is_dialled_when_it_says_and_not_by_all_at_the_same_time() -> None:
    pauses = [dialler().pause(Busy("wss://h:1", "busy", 20.0)) for _ in range(200)]
    assert min(pauses) >= 20.0
    assert max(pauses) <= 23.0
    assert max(pauses) - min(pauses) > 1.0


def test_patience_with_a_broker_that_takes_connections_and_does_not_answer_grows() -> None:
    patient = dialler()
    waits = []
    for _ in range(4):
        waits.append(patient.patience)
        patient.pause(BrokerUnreachable("wss://h:1", "no answer within 10 s"))
    assert waits == [OPEN_SECONDS, 2 * OPEN_SECONDS, LAST_OPEN_SECONDS, LAST_OPEN_SECONDS]
    assert dialler(10_000).patience == 2 * OPEN_SECONDS
    patient.unanswered_since = 0.0
    patient.pause(BrokerUnreachable("wss://h:1", "refused"))
    assert patient.patience == OPEN_SECONDS
