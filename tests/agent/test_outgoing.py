"""What a rank says is in order, bounded, and restated rather than kept over a lost link."""

from __future__ import annotations

from dbg_agent.outgoing import MAX_MESSAGES, REPORT_NOW, Outgoing
from dbg_wire.limits import MAX_LINK_BACKLOG


def opened() -> Outgoing:
    outgoing = Outgoing(lambda: None)
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


def test_too_many_messages_are_told() -> None:
    outgoing = opened()
    assert all(outgoing.put_message("m") for _ in range(MAX_MESSAGES))
    assert not outgoing.put_message("one too many")


def test_nothing_is_kept_while_the_link_is_down() -> None:
    outgoing = opened()
    outgoing.put_message("old")
    outgoing.close()
    outgoing.put_message("lost")
    outgoing.put_report()
    outgoing.put_output(b"lost")
    outgoing.open()
    assert drain(outgoing) == []
