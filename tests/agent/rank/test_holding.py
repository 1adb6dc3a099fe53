"""How long a rank holds its exit for other ranks that are kept after a crash."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbg_agent.rank.holding import RESTATED_SECONDS, Holding
from dbg_agent.stop.inbox import GoOn
from dbg_wire.messages import Kept

STOP = 4


class Held:
    """A rank whose exit is held, with a link that keeps what is to be called later."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.went_on: list[int] = []
        self.link = SimpleNamespace(is_connected=True)
        self.number = 0
        self.address = "h:0"
        self.stopping = self
        self.inbox = SimpleNamespace(put=self._put)
        self.stops = SimpleNamespace(current=(STOP, None), number=STOP, is_hold=True, is_mine=lambda: False)
        self.holding = Holding(cast("Any", self))

    def _put(self, stop: int, work: GoOn) -> None:
        self.went_on.append(stop)
        work.done()

    def end_step(self) -> None:
        """Do nothing: this rank makes no step."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((seconds, call))

    def stop(self, *_args: Any, **_more: Any) -> None:
        self.holding.begun()
        self.body()

    def body(self) -> None:
        """Do nothing while the exit is held; a test puts its own in this place."""

    def hold_exit(self, body: Callable[[], None]) -> None:
        self.body = body  # type: ignore[method-assign]
        self.holding.on_kept(Kept(ranks=(1,)))
        self.holding.hold_exit(60.0)

    def tick(self) -> None:
        _, call = self.later.pop(0)
        call()


def test_it_waits_on_while_a_broker_says_that_somebody_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    held = Held()

    def body() -> None:
        held.tick()
        assert held.went_on == []
        held.link.is_connected = False
        held.tick()
        assert held.went_on == [STOP]

    held.hold_exit(body)
    assert "has waited long enough" in capsys.readouterr().err


def test_those_that_ended_while_there_was_no_broker_are_not_waited_for() -> None:
    held = Held()

    def body() -> None:
        held.later.clear()
        held.holding.welcomed(0.0)
        assert held.later[0][0] == RESTATED_SECONDS
        held.tick()
        assert held.went_on == [STOP]

    held.hold_exit(body)


def test_those_that_a_new_broker_tells_of_are_waited_for() -> None:
    held = Held()

    def body() -> None:
        held.later.clear()
        held.holding.welcomed(0.0)
        held.holding.on_kept(Kept(ranks=(1,)))
        held.tick()
        assert held.went_on == []
        held.holding.on_kept(Kept(ranks=()))
        assert held.went_on == [STOP]

    held.hold_exit(body)


def test_where_crashed_ranks_are_not_kept_nobody_waits_for_them() -> None:
    held = Held()
    held.holding.on_kept(Kept(ranks=(1,)))
    held.holding.hold_exit(0.0)
    assert held.later == []


def test_it_is_said_once_why_a_rank_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    held = Held()

    def body() -> None:
        held.link.is_connected = False
        _, waited_long = held.later[0]
        waited_long()
        waited_long()
        assert held.went_on == [STOP]

    held.hold_exit(body)
    assert capsys.readouterr().err.count("has waited long enough") == 1
