"""No value of the program keeps a rank from making a message: the value is cut to what the broker takes."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbg_agent
from dbg_agent.frames.stacks import place_of, stack_of, traceback_of
from dbg_agent.guard.dumps import parse_dump
from dbg_agent.program.crash_hooks import describe
from dbg_agent.rank.holding import HoldCounts
from dbg_agent.settings import coordinates
from dbg_agent.stop.stops import Stops
from dbg_wire.codec import decode, encode
from dbg_wire.limits import MAX_PATH
from dbg_wire.messages import MESSAGES, Message, ProbeReply, RankReport, Report, Sender
from dbg_wire.records.ranks import RankState
from tests.unit.agent.guard.test_dumps import header
from tests.unit.wire.values import kinds

ROOT = Path(dbg_agent.__file__).parent
FIT_ALREADY = {"Report", "Probe", "Repaint"}
"""Messages that are made of records alone, or of nothing."""

names = st.text(st.characters(exclude_characters="\0"), max_size=30) | st.integers(4000, 70_000).map("é".__mul__)
file_names = st.text(st.characters(exclude_characters="\0"), min_size=1) | st.just("\udcff" * 5000)


def made_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and class of each message, or part of one, that a module makes by its class of what is no constant."""
    known = {kind.__name__ for kind in kinds()} | {message.__name__ for message in MESSAGES}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known - FIT_ALREADY:
            values = [keyword.value for keyword in node.keywords]
            if not all(isinstance(value, ast.Constant) for value in values):
                yield node.lineno, node.func.id


def test_every_message_is_fitted_where_it_is_made() -> None:
    found = [(path.name, *made) for path in sorted(ROOT.rglob("*.py")) for made in made_in(path)]
    assert found == []


def is_taken(message: Message) -> bool:
    """Tell whether a broker takes the message as it is."""
    return decode(encode(message), Sender.AGENT) == message


def frame_of(file: str, line: int = 1) -> FrameType:
    """Return a frame of code that says it is of this file and line."""
    source = "\n" * (line - 1) + "import sys\nfound.append(sys._getframe())"
    found: list[FrameType] = []
    exec(compile(source, "<code>", "exec").replace(co_filename=file), {"found": found})  # noqa: S102 - what is tested
    return found[0]


@given(file_names)
def test_code_may_have_any_name(file: str) -> None:
    frame = frame_of(file)
    assert is_taken(ProbeReply(where=place_of(frame), frames=stack_of(frame)))
    assert len(place_of(frame).file) <= MAX_PATH


@given(names, names)
def test_threads_and_exceptions_may_have_any_name(thread: str, text: str) -> None:
    stops = Stops(lambda: None)
    reports: list[RankReport] = []

    def stop() -> None:
        stops.arrive(sys._getframe(), "breakpoint", text)
        reports.append(stops.report(breakpoints=0, generation=2**40, applied=-1))
        stops.end()

    running = threading.Thread(target=stop, name=thread)
    running.start()
    running.join()
    [report] = reports
    assert report.state is RankState.STOPPED
    assert is_taken(Report(report=report))
    describe(ValueError(text))


def test_a_traceback_may_be_of_any_code() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("1/0", "<code>", "exec").replace(co_filename="\udcff" * 5000), {})  # noqa: S102 - what is tested
    assert is_taken(ProbeReply(where=None, frames=traceback_of(caught.value.__traceback__)))


@given(names, st.lists(st.integers(), max_size=3), st.integers(0, 5000))
def test_sites_and_ranks_may_be_any(site: str, ranks: list[int], more: int) -> None:
    holds = HoldCounts(lambda: 0.0)
    holds.arrive(site)
    waiting = holds.visit(site, (*ranks, *range(more)))
    report = RankReport(state=RankState.HELD, arrivals=holds.arrivals(), waits=waiting)
    assert is_taken(Report(report=report))
    # Both ends of a hold are known by one name, also if it was cut.
    assert report.arrivals[0].site == waiting.site


@given(st.integers(1, 10**30), st.integers(0, 10**30))
def test_a_mesh_may_have_any_size(size: int, rank: int) -> None:
    for coordinate in coordinates((("pp", size), ("tp", size)), rank):
        assert coordinate.index >= 0


@given(names)
def test_a_dump_may_name_any_file(file: str) -> None:
    written = file.encode("ascii", "backslashreplace").decode()
    for stack in parse_dump(f'{header("0x00007f", is_current=True)}  File "{written}", line 99999999999 in f\n'):
        assert is_taken(ProbeReply(where=None, frames=stack.frames))
