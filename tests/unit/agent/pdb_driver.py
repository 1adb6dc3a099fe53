"""Broker and terminal of a rank at once, without a network, for tests of its line debugger."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_agent.stop.stops import StopPhase
from dbg_wire.codec import Output, decode_data
from dbg_wire.messages import Action, Ask, Interrupt, PromptInfo, Reply, Sender, Viewers
from tests.support.time_unit import seconds
from tests.unit.agent.fake_link import FakeNetwork

SECONDS = seconds(30)


class Seat:
    """The broker and terminal of a rank: it keeps what the rank sends, and waits for it."""

    def __init__(
        self, settings: Settings, draw: Callable[[bytes], object], later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self.network = FakeNetwork(draw, self._hear, self.notify, later)
        self.rank = Rank(settings, make_link=self.network.link)

    def _hear(self, text: str) -> None:
        with self._changed:
            self.messages.append(json.loads(text))
            self._changed.notify_all()

    def notify(self) -> None:
        """Have :meth:`wait_for` look at its condition again."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, SECONDS):
                pytest.fail(f"never saw {what}; the terminal:\n{self.text}\n{self.rank.rank_report()}")

    def heard(self, kind: str) -> list[dict[str, Any]]:
        """Return the messages of a kind; the body of an answer is a part of it."""
        return [{**message, **message.get("body", {})} for message in self.messages if message["type"] == kind]

    @property
    def text(self) -> str:
        """What the terminal shows."""
        return ""


TIMERS: list[threading.Timer] = []
"""Those of the running test; each is a thread."""


def call_later(after: float, call: Callable[[], None]) -> None:
    """Keep time as the link's thread does."""
    timer = threading.Timer(after, call)
    timer.daemon = True
    TIMERS.append(timer)
    timer.start()


def cancel_timers() -> None:
    """End the threads of all timers."""
    while TIMERS:
        TIMERS.pop().cancel()


class Driver(Seat):
    """The broker and terminal of a rank, which answers the prompts and reads the log of the rank."""

    def __init__(self, draw: Callable[[bytes], object] | None = None) -> None:
        """Make the rank; ``draw`` takes its output in place of :attr:`log`."""
        self.log = bytearray()
        self.session = 0
        self._answered = 0
        super().__init__(Settings(engine="pdb"), draw or self._read, call_later)

    def _read(self, frame: bytes) -> None:
        output = decode_data(frame, Sender.AGENT)
        assert isinstance(output, Output)
        with self._changed:
            if output.session != self.session:
                self.session, self.log = output.session, bytearray()
            fresh = output.data[max(0, len(self.log) - output.offset) :]
            if output.offset <= len(self.log):
                self.log += fresh
            self._changed.notify_all()

    @property
    def text(self) -> str:
        return self.log.decode()

    def look(self) -> None:
        self.rank.from_broker.on_message(Viewers(viewers=1, generation=1, rows=30, columns=100, colors=256))

    def prompt(self) -> PromptInfo:
        """Wait for a prompt that has not been answered yet."""
        prompts: list[PromptInfo] = []

        def fresh() -> bool:
            prompt = self.rank.debuggers.console.prompt
            if prompt is None or prompt.number <= self._answered:
                return False
            prompts.append(prompt)
            return True

        self.wait_for(fresh, "a prompt")
        return prompts[-1]

    def pass_over_prompt(self) -> None:
        """Leave the next prompt unanswered."""
        self._answered = self.prompt().number

    def reply(self, text: str) -> PromptInfo:
        """Answer the next prompt; return it."""
        prompt = self.prompt()
        self._answered = prompt.number
        self.rank.from_broker.on_message(Reply(prompt=prompt.number, generation=1, text=text))
        return prompt

    def output_of(self, command: str) -> str:
        """Run a command; return what it printed up to the next prompt."""
        self.reply(command)
        prompt = self.prompt()
        log = bytes(self.log[: prompt.offset]).decode()
        return log.rpartition(f"{command}\n")[2]

    def end_stop(self) -> None:
        """End the stop, trying again while the rank steps, since a step can't be ended."""
        # A breakpoint would stop the thread again, with no script to end the stop.
        self.rank.breakpoints.lines.clear()
        deadline = time.monotonic() + SECONDS
        while self.rank.stops.phase is not StopPhase.NONE and time.monotonic() < deadline:
            self.rank.from_broker.on_message(Ask(request=9, action=Action.CONTINUE))
            with self._changed:
                self._changed.wait_for(lambda: self.rank.stops.phase is StopPhase.NONE, 0.1)


def in_background(script: Callable[[], None], rescue: Callable[[], None]) -> Callable[[], None]:
    """Run a script in a thread; return a call that waits for its end and raises what it raised.

    ``rescue`` ends the stop that a failed script leaves: a test's time-out ends no debugger that waits.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            script()
        except BaseException as error:  # the returned call raises it in the test's thread
            failures.append(error)
            rescue()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def finish() -> None:
        thread.join(2 * SECONDS)
        if failures:
            raise failures[0]

    return finish


def drive(driver: Driver, script: Callable[[], None], *, look: bool = True) -> Callable[[], None]:
    """Have a thread run ``script`` once this one stops; return a call that waits for its end, and raises its error."""

    def whole() -> None:
        driver.wait_for(lambda: driver.rank.stops.phase is not StopPhase.NONE, "a stop")
        if look:
            driver.look()
        script()
        driver.wait_for(lambda: driver.rank.stops.phase is StopPhase.NONE, "no stop")

    return in_background(whole, driver.end_stop)


def train(rank: Rank) -> int:
    total = 1
    rank.stopping.stop(sys._getframe(), "breakpoint")
    total += 1
    total += 2
    total += 3
    return total


def play(driver: Driver, script: Callable[[], None]) -> int:
    """Have a thread drive the debugger by ``script`` while this one stops in ``train``; return its result."""
    finish = drive(driver, script)
    result = train(driver.rank)
    finish()
    return result


def interrupt(driver: Driver) -> None:
    """Press Ctrl-C."""
    driver.rank.from_broker.on_message(Interrupt(generation=1))
