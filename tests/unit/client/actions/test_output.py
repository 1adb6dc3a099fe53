from __future__ import annotations

from dbg_client.actions.output import in_place
from tests.support.screen import VirtualScreen


def test_a_screen_is_replaced_whatever_stood_there() -> None:
    screen = VirtualScreen(6, 20)
    screen.feed(b"junk " * 40)

    screen.feed(in_place(["one", "x" * 50, "three"], 6).encode())
    assert screen.rows == ["one", "x" * 20, "three", "", "", ""]
    screen.feed(in_place(["uno"], 6).encode())
    assert screen.rows == ["uno", "", "", "", "", ""]
    screen.feed(b"y" * 21)
    assert screen.rows[1:3] == ["y" * 20, "y"]


def test_what_a_screen_has_no_room_for_is_counted() -> None:
    screen = VirtualScreen(6, 20)

    screen.feed(in_place([str(number) for number in range(100)], 6).encode())

    assert screen.rows == ["0", "1", "2", "3", "… 96 more lines", ""]
