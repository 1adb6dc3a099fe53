"""The recording of one stop: a screen as it was drawn, a log in order and once, prompts where they stood."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.recording.stop_cast import MAX_SESSIONS, Happening, Marker, Missing, StopCast, Typed
from dbg_wire.sequences import QueryFilter
from tests.unit.broker.recording.events import ABOUT, events, marks, output, prompt, seen, shown


def lines_of(*happenings: Happening) -> bytes:
    cast = StopCast(ABOUT)
    return b"".join(map(cast.lines_of, happenings))


class TestAnyDebugger:
    def test_the_header_says_which_stop_it_is(self) -> None:
        cast = StopCast(ABOUT)
        cast.lines_of(seen(0.0, rows=30, columns=100))
        header = json.loads(cast.header())
        assert (header["version"], header["width"], header["height"]) == (2, 100, 30)
        assert header["title"] == "4711.0/gpu013:5, stop 3, 2025-10-09 08:53:20 UTC"
        assert header["env"]["STOP_ADDRESS"] == "gpu013:5"
        assert header["env"]["STOP_REASON"] == "breakpoint"

    def test_another_size_is_told_once(self) -> None:
        lines = lines_of(seen(0.0), shown(1.0, b"a"), seen(2.0, rows=30, columns=90), seen(3.0, rows=30, columns=90))
        assert [event[1:] for event in events(lines)] == [("o", "a"), ("r", "90x30")]

    def test_who_types_and_the_end_are_markers(self) -> None:
        lines = lines_of(
            seen(0.0), Marker(0.0, "alice\x1b[2J types"), shown(0.0, b"a"), Marker(1.0, "the process has ended with 3")
        )
        assert marks(lines) == ["alice\\x1b[2J types", "the process has ended with 3"]

    def test_keys_are_input(self) -> None:
        assert events(lines_of(seen(0.0), Typed(0.0, "ö".encode()[:1]), Typed(0.0, "ö".encode()[1:])))[0][2] == "ö"

    def test_times_count_from_what_happened_first(self) -> None:
        lines = lines_of(seen(1000.0), shown(1000.25, b"a"), shown(1004.5, b"b"))
        assert [event[0] for event in events(lines)] == [0.25, 4.5]

    def test_a_gap_is_named(self) -> None:
        assert marks(lines_of(seen(0.0), Missing(1.0, 4096))) == ["4096 bytes of output are missing here"]

    def test_a_frame_that_no_rank_sends_is_refused_by_the_codec_alone(self) -> None:
        cast = StopCast(ABOUT)
        for session in range(100):
            cast.lines_of(shown(0.0, b"a", session=session))
        assert len(cast._expected) <= MAX_SESSIONS


class TestScreen:
    @given(st.text(min_size=1), st.data())
    def test_output_cut_anywhere_is_the_same_text(self, text: str, data: st.DataObject) -> None:
        whole = text.encode("utf-8", "replace")
        cut = data.draw(st.integers(0, len(whole)))
        lines = lines_of(seen(0.0), shown(0.0, whole[:cut]), shown(0.0, whole[cut:], cut))
        assert output(lines) == QueryFilter().feed(whole).decode()

    def test_what_acts_on_a_terminal_is_left_out_even_in_pieces(self) -> None:
        asked = b"loss\x1b[6n\x1b]52;c;cm0gLXJm\x07\x1b[1;31m0.25"
        frames = [shown(0.0, asked[at : at + 1], at) for at in range(len(asked))]
        assert output(lines_of(seen(0.0), *frames)) == "loss\x1b[1;31m0.25"

    def test_a_prompt_acts_on_no_terminal(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"), shown(0.0, b"a\n"), seen(0.0, "pdb", prompt=prompt(1, 2, "\x1b]0;t\x07(Pdb) "))
        )
        assert output(lines) == "a\r\n(Pdb) "

    def test_half_a_sequence_before_a_gap_spoils_nothing_after_it(self) -> None:
        lines = lines_of(seen(0.0), shown(0.0, b"a\x1b]0;"), Missing(0.0, 100), shown(0.0, b"b", 200))
        assert output(lines) == "ab"

    def test_what_has_no_place_in_the_stream_is_drawn_all_the_same(self) -> None:
        """A repaint follows; the offsets of a screen say nothing of its content."""
        assert output(lines_of(seen(0.0), shown(0.0, b"a", 5), shown(0.0, b"b", 0), shown(0.0, b"c", 90))) == "abc"


class TestLog:
    def test_prompts_stand_where_they_stood_and_lines_are_there_once(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"),
            shown(1.0, b"> a.py(7)\n"),
            seen(2.0, "pdb", prompt=prompt(1, 10)),
            seen(3.0, "pdb"),
            shown(3.0, b"(Pdb) p 1\n1\n", 10),
            seen(4.0, "pdb", prompt=prompt(2, 22)),
        )
        assert output(lines) == "> a.py(7)\r\n(Pdb) p 1\r\n1\r\n(Pdb) "
        assert [data for _, _, data in events(lines)] == ["> a.py(7)\r\n", "(Pdb) ", "p 1\r\n1\r\n", "(Pdb) "]

    def test_a_prompt_that_comes_before_the_output_waits_for_it(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"), shown(0.0, b"a"), seen(1.0, "pdb", prompt=prompt(1, 2)), shown(1.0, b"\n", 1)
        )
        assert output(lines) == "a\r\n(Pdb) "

    def test_what_is_printed_over_a_prompt_begins_a_line(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"), shown(0.0, b"a\n"), seen(0.0, "pdb", prompt=prompt(1, 2)), shown(1.0, b"thread\n", 2)
        )
        assert output(lines) == "a\r\n(Pdb) \r\nthread\r\n"

    def test_a_log_that_is_sent_again_for_another_terminal_is_there_once(self) -> None:
        lines = lines_of(seen(0.0, "pdb"), shown(0.0, b"abc"), shown(1.0, b"abcdef"), shown(2.0, b"ef", 4))
        assert output(lines) == "abcdef"

    def test_what_was_shown_to_nobody_is_named(self) -> None:
        lines = lines_of(seen(0.0, "pdb"), shown(0.0, b"abc"), shown(1.0, b"xyz", 1003))
        assert marks(lines) == ["1000 bytes of output are missing here"]
        assert output(lines) == "abcxyz"

    def test_lines_are_not_written_over_the_screen_of_another_debugger(self) -> None:
        lines = lines_of(seen(0.0), shown(0.0, b"screen"), seen(1.0, "pdb"), shown(1.0, b"line\n", session=2))
        assert marks(lines) == ["the debugger is pdb now"]
        assert output(lines).startswith("screen\x0f\x1b(B\x1b[0m\x1b[2J\x1b[H")
        assert output(lines).endswith("line\r\n")

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=30))
    def test_in_any_order_no_byte_is_there_twice(self, pieces: list[tuple[int, int]]) -> None:
        log = bytes(33 + number for number in range(60))
        lines = lines_of(seen(0.0, "pdb"), *(shown(0.0, log[at : at + size], at) for at, size in pieces))
        said = output(lines)
        assert len(set(said)) == len(said)
        assert sorted(said) == list(said)
