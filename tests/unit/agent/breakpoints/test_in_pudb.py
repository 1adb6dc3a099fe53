"""Breakpoints of an IDE in PuDB, and those of PuDB in an IDE's answer."""

from __future__ import annotations

import itertools
import json

import msgspec

from dbg_wire.messages import Action, Ask
from dbg_wire.records.breakpoints import BreakpointState, BreakpointsWish, BreakpointWish
from tests.unit.agent import pudb_viewer
from tests.unit.agent.pudb_viewer import Viewer, play, train

NUMBERS = itertools.count(100)

SECOND = train.__code__.co_firstlineno + 4
"""Line of ``total += 2``."""


def ask(viewer: Viewer, *wishes: BreakpointWish) -> tuple[BreakpointState, ...]:
    number = next(NUMBERS)
    wish = BreakpointsWish(set=wishes)
    viewer.rank.from_broker.on_message(Ask(request=number, action=Action.BREAKPOINTS, inquiry=wish, seconds=10.0))

    def answers() -> list[dict[str, list[str]]]:
        return [one for one in map(json.loads, viewer.answers) if one.get("request") == number]

    viewer.wait_for(lambda: bool(answers()), "the answer about breakpoints")
    return msgspec.convert(answers()[0]["rows"], tuple[BreakpointState, ...])


def test_pudb_draws_a_breakpoint_of_an_ide_and_its_own_is_told(viewer: Viewer) -> None:
    def script() -> None:
        viewer.opens()
        (state,) = ask(viewer, BreakpointWish(file=pudb_viewer.__file__, line=SECOND, condition="total == 2"))
        assert state.is_set
        viewer.sees(f"pudb_viewer.py:{SECOND} (")
        # `b` in the line of the IDE's breakpoint clears it, and one line further sets one.
        viewer.type(b"jjb")
        viewer.sees_no(f"pudb_viewer.py:{SECOND} (")
        assert ask(viewer) == ()
        viewer.type(b"jb")
        viewer.sees(f"pudb_viewer.py:{SECOND + 1} (")
        (state,) = ask(viewer)
        assert (state.asked, state.line, state.is_set) == (SECOND + 1, SECOND + 1, True)
        viewer.type(b"c")
        viewer.sees_current_line("total += 3")
        viewer.type(b"b")
        viewer.sees_no(f"pudb_viewer.py:{SECOND + 1} (")
        viewer.type(b"c")

    assert play(viewer, script) == 7
