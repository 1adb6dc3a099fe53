"""What a rank says is in order, bounded, and restated rather than kept over a lost link."""

from __future__ import annotations

import pytest

from dbg_agent.link.outgoing import MAX_MESSAGE_BYTES, MAX_MESSAGES, REPORT_NOW, Outgoing
from dbg_wire.codec import Output, encode_data
from dbg_wire.limits import MAX_LINK_BACKLOG


def opened() -> Outgoing:
    outgoing = Outgoing(lambda: None, lambda: pytest.fail("started afresh"))
    outgoing.open()
    return outgoing


def drain(outgoing: Outgoing) -> list[object]:
    items: list[object] = []
    while (item := outgoing.pop()) is not None:
        items.append(item)
    return items


def test_reports_keep_their_place_before_the_output_that_follows_them() -> None:
    outgoing = opened()
    outgoing.put_report()
    outgoing.put_report()
    outgoing.put_output(b"screen")
    outgoing.put_report()
    outgoing.put_message("applied")
    assert drain(outgoing) == [REPORT_NOW, b"screen", REPORT_NOW, "applied"]


def test_output_beyond_the_bound_is_dropped_whole_and_leaves_messages_alone() -> None:
    outgoing = opened()
    outgoing.put_message("first")
    for _ in range(MAX_LINK_BACKLOG // 1024 + 1):
        outgoing.put_output(b"x" * 1024)
    outgoing.put_message("last")
    assert outgoing.starved
    outgoing.put_output(b"more")
    assert drain(outgoing) == ["first", "last"]


def test_output_that_follows_is_one_frame_and_wakes_once() -> None:
    woken: list[bool] = []
    outgoing = Outgoing(lambda: woken.append(True), lambda: pytest.fail("started afresh"))
    outgoing.open()
    whole = b""
    for number in range(1000):
        line = b"%d\n" % number
        outgoing.put_output(encode_data(Output(1, len(whole), line)))
        whole += line
    outgoing.put_output(encode_data(Output(2, 0, b"another session")))
    outgoing.put_report()
    outgoing.put_output(encode_data(Output(2, 15, b"after it")))
    assert len(woken) == 1
    assert drain(outgoing) == [
        encode_data(Output(1, 0, whole)),
        encode_data(Output(2, 0, b"another session")),
        REPORT_NOW,
        encode_data(Output(2, 15, b"after it")),
    ]
    outgoing.put_message("more")
    assert len(woken) == 2


def test_frames_stay_within_their_bound_and_gaps_stay_gaps() -> None:
    outgoing = opened()
    frames = [encode_data(Output(1, offset, b"x" * 40_000)) for offset in (0, 40_000, 90_000)]
    for frame in frames:
        outgoing.put_output(frame)
    assert drain(outgoing) == frames


@pytest.mark.parametrize(("count", "size"), [(MAX_MESSAGES, 1), (16, MAX_MESSAGE_BYTES // 16)])
def test_too_many_messages_have_the_link_start_afresh_once(count: int, size: int) -> None:
    afresh: list[bool] = []
    outgoing = Outgoing(lambda: None, lambda: afresh.append(True))
    outgoing.open()
    for _ in range(count):
        outgoing.put_message("m" * size)
    assert not afresh
    for _ in range(3):
        outgoing.put_message("one too many")
        outgoing.put_report()
        outgoing.put_output(b"too late")
    assert afresh == [True]
    assert drain(outgoing) == []
    outgoing.open()
    outgoing.put_message("anew")
    assert drain(outgoing) == ["anew"]


def test_nothing_is_kept_while_the_link_is_down() -> None:
    outgoing = opened()
    outgoing.put_message("old")
    outgoing.close()
    outgoing.put_message("lost")
    outgoing.put_report()
    outgoing.put_output(b"lost")
    outgoing.open()
    assert drain(outgoing) == []
