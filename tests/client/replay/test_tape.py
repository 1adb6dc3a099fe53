"""The file of a recording: its length, its markers, any place in it, and what is broken."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.replay import tape as module
from dbg_client.replay.tape import ENOUGH, Mark, Tape, draws_all
from dbg_wire.errors import BadInput
from tests.client.replay.tapes import cast, screen, tape


def drawn_at(one: Tape, at: float) -> str:
    return "".join(moment.event.data for moment in one.before(at)[1])


def test_long_pauses_are_short_and_markers_are_kept() -> None:
    one = tape((1, "o", "a"), (60, "m", "alice types"), (0.5, "o", "b"), (1, "i", "x"))
    assert one.duration == 1 + 2 + 0.5 + 1
    assert one.marks == [Mark(3, "alice types")]
    assert [moment.at for moment in one.moments()] == [1, 3, 3.5, 4.5]
    assert tape((60, "o", "a"), idle=100.0).duration == 60


def test_a_place_is_drawn_from_the_last_whole_screen_on() -> None:
    one = tape((1, "o", "old"), (1, "r", "90x30"), (1, "o", screen("whole", 30)), (1, "o", "more"), (1, "o", "later"))
    size, drawn = one.before(4)
    assert size == (30, 90)
    assert [moment.event.data for moment in drawn] == [screen("whole", 30), "more"]
    assert [moment.event.data for moment in one.after(4)] == ["later"]
    assert drawn_at(one, 1.5) == "old"
    assert drawn_at(one, 0.5) == ""


def test_what_is_drawn_for_a_place_is_bounded() -> None:
    one = tape(*[(0.001, "o", f"{number:05}" * 200) for number in range(1000)])
    drawn = drawn_at(one, 10.0)
    assert len(drawn) == ENOUGH
    assert drawn.endswith("00999")


def test_a_place_far_from_a_whole_screen_takes_little_memory() -> None:
    one = tape(*[(0.001, "o", "x" * 60_000) for _ in range(300)])
    tracemalloc.start()
    try:
        drawn_at(one, 10.0)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_whole_screens_are_known() -> None:
    assert draws_all(screen("a"), 24)
    assert draws_all("\x1b[2Jab", 24)
    assert not draws_all("\x1b[10;1Habc\x1b[11;1Hdef".ljust(100), 24)


def test_many_whole_screens_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STARTS", 10)
    one = tape(*[(0.1, "o", f"\x1b[2J{number}") for number in range(500)])
    assert len(one._starts) <= 10
    for number in (0, 7, 250, 499):
        assert drawn_at(one, 0.1 * (number + 1) + 0.001).endswith(f"\x1b[2J{number}")


@given(
    st.lists(st.tuples(st.floats(0, 3), st.sampled_from("orm"), st.sampled_from(["a", "\x1b[2J", "80x24"]))),
    st.floats(0, 20),
)
def test_before_and_after_a_place_are_the_whole(events: list[tuple[float, str, str]], at: float) -> None:
    one = tape(*events)
    whole = [moment.event.data for moment in one.moments() if moment.event.code == "o"]
    after = [moment.event.data for moment in one.after(at) if moment.event.code == "o"]
    before = "".join(whole[: len(whole) - len(after)])
    assert before.endswith(drawn_at(one, at))
    assert before.rpartition("\x1b[2J")[2] == drawn_at(one, at).rpartition("\x1b[2J")[2]


class TestBroken:
    def test_lines_that_are_no_events_are_counted_and_left_out(self) -> None:
        data = cast((1, "o", "a")) + b'# a comment\n\nnonsense\n[1,"o","b"]\n'
        one = Tape(io.BytesIO(data), "a.cast", 2.0)
        assert [moment.event.data for moment in one.moments()] == ["a", "b"]
        assert one.broken == 1
        assert not one.is_cut

    @given(st.data())
    def test_a_file_cut_anywhere_plays_up_to_there(self, data: st.DataObject) -> None:
        whole = cast((1, "o", "a"), (1, "m", "b"), (1, "o", "c"))
        at = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))
        one = Tape(io.BytesIO(whole[:at]), "a.cast", 2.0)
        assert one.is_cut == (not whole[:at].endswith(b"\n"))
        assert "".join(moment.event.data for moment in one.moments()) in ("", "a", "ab", "abc")

    @given(st.binary(max_size=300))
    def test_any_bytes_behind_a_header_are_read(self, rest: bytes) -> None:
        one = Tape(io.BytesIO(cast() + rest), "a.cast", 2.0)
        list(one.moments())
        one.before(1.0)

    def test_what_is_no_recording_is_refused_in_a_sentence(self) -> None:
        with pytest.raises(BadInput, match=r"a\.cast is no recording; name a \.cast file"):
            Tape(io.BytesIO(b"\x7fELF"), "a.cast", 2.0)
        with pytest.raises(BadInput, match=r"version 2, and --replay plays version 3"):
            Tape(io.BytesIO(json.dumps({"version": 2}).encode()), "a.cast", 2.0)
        with pytest.raises(BadInput):
            Tape(io.BytesIO(b""), "a.cast", 2.0)
