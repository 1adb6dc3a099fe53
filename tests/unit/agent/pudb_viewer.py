"""Broker and terminal of a rank's PuDB at once, for tests without a network."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pyte

from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_agent.stop.stops import StopPhase
from dbg_wire.codec import Input, Output, decode_data
from dbg_wire.messages import Action, Ask, Sender, Viewers
from tests.support.time_unit import seconds
from tests.unit.agent.fake_link import never
from tests.unit.agent.pdb_driver import SECONDS, Seat, in_background, train

ROWS, COLUMNS = 30, 100

Result = TypeVar("Result")


class Viewer(Seat):
    """The broker and terminal of a rank, which sees the screen of the rank and types."""

    def __init__(self) -> None:
        self.display = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.display)
        self._typed = 0
        self.generation = 1
        super().__init__(Settings(), self._draw, never)

    def _draw(self, frame: bytes) -> None:
        output = decode_data(frame, Sender.AGENT)
        assert isinstance(output, Output)
        with self._changed:
            self._stream.feed(output.data)
            self._changed.notify_all()

    @property
    def text(self) -> str:
        return "\n".join(self.display.display)

    def sees(self, text: str) -> None:
        self.wait_for(lambda: any(text in row for row in self.display.display), repr(text))

    def sees_no(self, text: str) -> None:
        self.wait_for(lambda: not any(text in row for row in self.display.display), f"no {text!r}")

    def sees_current_line(self, text: str) -> None:
        self.wait_for(
            lambda: any(row.startswith(">") and text in row for row in self.display.display), f"> before {text!r}"
        )

    def look(self, rows: int = ROWS, columns: int = COLUMNS) -> None:
        with self._changed:
            self.display.resize(rows, columns)
        self.rank.from_broker.on_message(
            Viewers(viewers=1, generation=self.generation, rows=rows, columns=columns, colors=256)
        )

    def waits_for_stop(self, number: int) -> None:
        stops = self.rank.stops
        self.wait_for(lambda: stops.number == number and stops.phase is not StopPhase.NONE, f"stop {number}")

    def opens(self, columns: int = COLUMNS) -> None:
        """Attach at the first stop, and wait until PuDB is there."""
        self.waits_for_stop(1)
        self.look(columns=columns)
        self.sees("Variables:")
        self.sees_current_line("rank.stopping.stop(")

    def does(self, *steps: tuple[bytes, str]) -> None:
        """Type keys, and wait for what is shown then: a text, ``> `` and one of the current line, ``!`` and none."""
        for keys, shown in steps:
            self.type(keys)
            if shown.startswith("> "):
                self.sees_current_line(shown[2:])
            elif shown.startswith("!"):
                self.sees_no(shown[1:])
            else:
                self.sees(shown)

    def type(self, keys: bytes) -> None:
        stop, session = self.rank.stops.current
        self.rank.from_broker.on_input(Input(session or 0, stop or 0, self.generation, self._typed, keys))
        self._typed += len(keys)


def at_command_line(viewer: Viewer) -> None:
    """Attach at the first stop, and go to PuDB's command line."""
    viewer.opens()
    viewer.type(b"!")


def end_stop(viewer: Viewer) -> None:
    viewer.rank.from_broker.on_message(Ask(request=9, action=Action.CONTINUE))


def asks(viewer: Viewer, action: Action, request: int, text: str = "") -> None:
    viewer.rank.from_broker.on_message(Ask(request=request, action=action, text=text, seconds=seconds(20)))


def answers_to(viewer: Viewer, request: int) -> list[dict[str, Any]]:
    return [one for one in viewer.heard("answer") if one["request"] == request]


def answer_of(viewer: Viewer, request: int) -> tuple[str, str]:
    """Wait for an answer; return its kind and its text."""
    viewer.wait_for(lambda: bool(answers_to(viewer, request)), f"answer {request}")
    (answer,) = answers_to(viewer, request)
    return answer["kind"], answer["text"]


def drive(viewer: Viewer, script: Callable[[], None]) -> Callable[[], None]:
    return in_background(script, lambda: end_stop(viewer))


def play(viewer: Viewer, script: Callable[[], None], program: Callable[[Rank], Result] = train) -> Result:  # type: ignore[assignment]
    """Run the program in this thread and the viewer's script beside it; return what the program returned.

    Nothing of the debugger is left in the thread, and no fault of it was reported.
    """
    finish = drive(viewer, script)
    result = program(viewer.rank)
    assert sys.gettrace() is None
    finish()
    assert viewer.rank.broker.warned == set()
    return result


def keys(viewer: Viewer, *steps: tuple[bytes, str], program: Callable[[Rank], Result] = train) -> Result:  # type: ignore[assignment]
    """Play a session that opens PuDB, does these steps, and goes on."""

    def script() -> None:
        viewer.opens()
        viewer.does(*steps, (b"c", ""))

    return play(viewer, script, program)


def in_thread(program: Callable[[Rank], Result], rank: Rank) -> Result:
    """Run a program in another thread; return what it returned."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(program(rank)))
    thread.start()
    thread.join(2 * SECONDS)
    return results[0]
