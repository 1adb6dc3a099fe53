from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.seat.effects import Cut, Effects, LogText, Send, Wake
from dbg_client.seat.output import (
    MAX_ASKS,
    ON_ITS_WAY_SECONDS,
    REPLAY_SECONDS,
    SLOWER,
    TAIL_BYTES,
    SessionLog,
)
from dbg_wire.codec import Output
from dbg_wire.messages import Replay

LATER = REPLAY_SECONDS


def frame(offset: int, data: bytes) -> Output:
    return Output(1, offset, data)


def text(effects: Effects) -> bytes:
    return b"".join(effect.data for effect in effects if isinstance(effect, LogText))


def asked(effects: Effects) -> list[int]:
    return [effect.item.offset for effect in effects if isinstance(effect, Send) and isinstance(effect.item, Replay)]


def cuts(effects: Effects) -> list[int]:
    return [effect.count for effect in effects if isinstance(effect, Cut)]


def in_vain(log: SessionLog) -> Effects:
    """Return what a log does that has asked at 0.0 and gets no answer from a rank that is heard."""
    moments, now = [], 0.0
    for asks in range(MAX_ASKS):
        now += REPLAY_SECONDS * SLOWER**asks
        moments.append(now)
    return [effect for now in moments for effect in log.tick(now, now)]


def following(length: int = 0) -> SessionLog:
    """Return a log that has been followed from its beginning, ``length`` bytes of dots."""
    log = SessionLog(1)
    log.output(frame(0, b"." * length), 0.0)
    return log


# ---------------------------------------------------------------------------------------------------------- attaching


def test_a_new_terminal_shows_the_output_before_the_prompt() -> None:
    log = SessionLog(1)
    log.reach(TAIL_BYTES + 6, 0.0)
    assert log.is_behind

    shown = log.output(frame(6, b"w" * 1000), 0.0) + log.output(frame(1006, b"w" * (TAIL_BYTES - 1000) + b"more"), 0.0)

    assert text(shown) == b"w" * TAIL_BYTES + b"more"


# -------------------------------------------------------------------------------------------------------- following


def test_a_gap_is_requested_once_and_filled() -> None:
    log = following(10)

    assert asked(log.output(frame(20, b"later"), 0.0)) == [10]
    assert log.output(frame(25, b" and later"), 0.1) == []
    assert text(log.output(frame(10, b"0123456789later and later"), 0.2)) == b"0123456789later and later"
    assert log.tick(9.0, math.inf) == []


def test_a_gap_known_only_from_the_prompt_is_requested() -> None:
    log = following(10)

    assert log.reach(30, 0.0) == [Wake(ON_ITS_WAY_SECONDS)]
    assert log.is_behind
    assert log.reach(30, 0.1) == []
    assert asked(log.tick(ON_ITS_WAY_SECONDS, math.inf)) == [10]
    assert text(log.output(frame(10, b"x" * 20), 0.1)) == b"x" * 20


def test_output_overtaken_by_a_prompt_is_not_requested() -> None:
    log = following(10)
    log.reach(30, 0.0)

    assert text(log.output(frame(10, b"x" * 15), 0.1)) == b"x" * 15
    assert log.is_behind
    assert text(log.output(frame(25, b"y" * 5), 0.2)) == b"y" * 5
    assert not log.is_behind
    assert log.tick(9.0, math.inf) == []


def test_lost_output_before_and_after_the_received_part_is_counted() -> None:
    log = following(10)
    log.output(frame(50, b"live"), 0.0)
    log.reach(100, 0.0)

    effects = [effect for second in range(1, 60) for effect in log.tick(second * LATER, math.inf)]

    assert (cuts(effects), text(effects)) == ([40, 46], b"live")
    assert not log.is_behind


def test_output_that_the_rank_no_longer_has_is_counted() -> None:
    log = following(10)
    log.output(frame(100, b"live"), 0.0)
    log.output(frame(60, b"s" * 40 + b"live"), 0.1)  # the replay begins where the log of the rank begins now

    effects = log.tick(LATER, math.inf)

    assert cuts(effects) == [50]
    assert text(effects) == b"s" * 40 + b"live"
    assert text(log.output(frame(104, b"!"), LATER)) == b"!"


def test_a_replay_for_another_terminal_is_not_mistaken_for_ours() -> None:
    log = following(10)
    log.output(frame(100, b"live"), 0.0)
    log.output(frame(60, b"s" * 40 + b"live"), 0.1)

    assert text(log.output(frame(10, b"a" * 94), 0.2)) == b"a" * 94
    assert log.tick(LATER, math.inf) == []


def test_a_missing_replay_is_requested_again_and_then_given_up() -> None:
    log = following(10)
    log.output(frame(100, b"live"), 0.0)

    effects = in_vain(log)

    assert asked(effects) == [10] * (MAX_ASKS - 1)
    assert (cuts(effects), text(effects)) == ([90], b"live")


def test_no_replay_is_requested_again_or_given_up_while_the_link_is_silent() -> None:
    log = following(65_536)
    assert [type(effect) for effect in log.reach(300_000, 1.0)] == [Wake]
    assert asked(log.tick(1.0 + ON_ITS_WAY_SECONDS, 1.0)) == [65_536]

    effects = [effect for second in range(2, 60) for effect in log.tick(1.0 + second, 1.0)]

    assert {type(effect) for effect in effects} == {Wake}
    shown = [log.output(frame(at, b"." * 65_536), 60.0) for at in range(65_536, 300_000, 65_536)]
    assert sum(len(text(effects)) for effects in shown) >= 300_000 - 65_536


def test_a_slow_replay_is_awaited() -> None:
    log = following(100_000)
    assert asked(log.output(frame(200_000, b"!"), 0.0)) == [100_000]
    moments = [step * 0.9 * REPLAY_SECONDS for step in range(1, 11)]
    for step, now in enumerate(moments):
        log.output(frame(step * 10_000, b"." * 10_000), now)
        assert log.tick(now + 0.8 * REPLAY_SECONDS, math.inf) == []

    assert len(text(log.output(frame(100_000, b"." * 100_001), moments[-1]))) == 100_001


def test_replays_are_paced() -> None:
    log = following(10)
    log.output(frame(20, b"x"), 0.0)
    log.output(frame(10, b"y" * 11), 0.1)

    assert log.output(frame(30, b"x"), 0.2) == [Wake(0.8)]
    assert asked(log.tick(LATER, math.inf)) == [21]


@given(st.binary(min_size=1, max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.booleans())))
def test_every_byte_is_shown_once_despite_losses_and_replays(whole: bytes, sent: list[tuple[int, int, bool]]) -> None:
    log, shown, now = following(0), b"", 0.0
    log.output(frame(0, b""), now)
    log.reach(0, now)
    for start, size, arrives in sent:
        if arrives and whole[start : start + size]:
            now += 0.1
            shown += text(log.output(frame(start, whole[start : start + size]), now))
    shown += text(log.reach(len(whole), now))
    shown += text(log.output(frame(0, whole), now))

    assert shown == whole
