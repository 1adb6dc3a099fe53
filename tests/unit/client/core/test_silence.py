from __future__ import annotations

from dbg_client.core.connection import FLOWING_BYTES, PING_SECONDS, Silence
from dbg_wire.limits import SILENT_SECONDS


def pinged(heard: int = 0) -> Silence:
    silence = Silence(0.0)
    silence.pinged(PING_SECONDS, heard)
    return silence


def test_a_ping_is_due_at_intervals_and_never_while_one_is_open() -> None:
    silence = Silence(0.0)
    assert not silence.wants_ping(PING_SECONDS - 0.1)
    assert silence.wants_ping(PING_SECONDS)
    silence.pinged(PING_SECONDS, 0)
    assert not silence.wants_ping(100.0)
    silence.answered(3.0)
    assert silence.wants_ping(2 * PING_SECONDS)


def test_a_broker_that_answers_is_never_silent() -> None:
    silence = Silence(0.0)
    assert silence.since(100.0) is None
    silence.pinged(100.0, 0)
    silence.answered(100.1)
    assert (silence.owed(200.0), silence.since(200.0)) == (0.0, None)


def test_a_broker_that_owes_an_answer_is_silent_since_its_last_one() -> None:
    silence = pinged()
    assert silence.owed(PING_SECONDS + 1.0) == 1.0
    assert silence.since(SILENT_SECONDS - 0.1) is None
    assert silence.since(SILENT_SECONDS) == 0.0


def test_small_news_prove_nothing_and_a_flood_delays_the_answer() -> None:
    silence = pinged(heard=1000)
    silence.update(3.0, 1000 + FLOWING_BYTES - 1)
    assert silence.since(SILENT_SECONDS) == 0.0
    silence.update(3.0, 1000 + FLOWING_BYTES)
    assert silence.since(SILENT_SECONDS) is None
    assert silence.since(3.0 + SILENT_SECONDS) == 3.0
