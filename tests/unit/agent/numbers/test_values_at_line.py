"""Values that are watched at a line, in files that are loaded before and after the watch starts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from dbg_agent.breakpoints import startup_stops
from dbg_agent.numbers import values_at_line
from dbg_agent.numbers.values_at_line import ValuesAtLine
from dbg_wire.records.numbers import Suspect
from dbg_wire.records.stop_points import parse_stop_at
from tests.unit.agent.breakpoints.asking import executed, loaded, stops_served

PROGRAM = """\
def train(losses):
    for loss in losses:
        scaled = 2 * loss
"""


def test_the_first_wrong_value_is_found_at_each_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def arrived(values: ValuesAtLine, frame: FrameType) -> None:
        is_wrong = values.is_wrong(frame, rank=7, step=3)
        wrong = values.found.wrong if is_wrong else None
        seen.append(wrong and (wrong.step, wrong.suspect, wrong.name))

    monkeypatch.setattr(startup_stops, "STARTUP_STOPS", [])
    monkeypatch.setattr(values_at_line, "wrong_value", lambda value, name: {"name": name} if value < 0 else None)
    expected = [None, (3, Suspect.VALUE, "loss"), (3, Suspect.VALUE, "rank - 8 * loss")]
    with stops_served(monkeypatch):
        program = loaded(tmp_path, PROGRAM)
        place = parse_stop_at(f"{program.__file__}:3, loss, rank - 8 * loss")
        startup_stops.add(ValuesAtLine(place, arrived), sys.modules)
        program.train([0, -1, 1])
        # On Python 3.11 a line is compiled in, so a loaded file is not changed.
        assert seen == (expected if sys.version_info >= (3, 12) else [])
        seen.clear()
        executed(tmp_path / "program.py")["train"]([0, -1, 1])
        assert seen == expected
