"""When the link's peer is silent, by a clock that the test turns."""

from __future__ import annotations

from dbg_agent.link.dialling import PING_ATTENDED_SECONDS, PING_SECONDS, SHORTEST_LOOK_SECONDS, Silence
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
