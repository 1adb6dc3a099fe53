"""A client that looks into one stopped rank as an IDE does, without the face of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbg_client.api.blocking import LoopThread
from dbg_client.core.asking import Asker
from dbg_client.core.switchboard import Switchboard, switchboard_to
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.inspection import Inspected, Inspection, InspectionKind, Variable, inspected_in
from dbg_wire.records.ranks import RankInfo, RankState
from tests.support.time_unit import seconds


class Look:
    """Looks into the only rank; each call waits for its answer."""

    def __init__(self, switchboard: Switchboard, thread: LoopThread) -> None:
        self._switchboard = switchboard
        self._thread = thread

    def ask(self, action: Action, text: str = "", frame: str = "", inquiry: Inspection | None = None) -> RankAnswer:
        asker = Asker(self._switchboard, seconds(20))
        (answer,) = self._thread.do(asker.ask(action, [self._info()], text, inquiry=inquiry, frame=frame))
        return answer

    def look(self, question: Inspection, frame: str = "") -> Inspected:
        answer = self.ask(Action.INSPECT, "", frame, question)
        assert answer.kind is Kind.VALUE, answer
        return inspected_in(answer.rows)

    def refusal(self, question: Inspection) -> str:
        answer = self.ask(Action.INSPECT, inquiry=question)
        assert answer.kind is Kind.ERROR, answer
        return answer.text

    def parts(self, of: Variable | None = None, frame: str = "", **more: object) -> dict[str, Variable]:
        """Return the parts of a variable, or the variables of the frame, by their names."""
        question = Inspection(sight=InspectionKind.PARTS, handle=of.handle if of is not None else 0, **more)  # type: ignore[arg-type]
        found = self.look(question, frame).variables
        named = {one.name: one for one in found}
        assert len(named) == len(found), found
        return named

    def value(self, text: str, frame: str = "", *, runs: bool = False) -> Variable:
        (found,) = self.look(Inspection(sight=InspectionKind.VALUE, text=text, runs=runs), frame).variables
        return found

    def assign(self, name: str, text: str, of: Variable | None = None, **more: object) -> Variable:
        handle = of.handle if of is not None else 0
        question = Inspection(sight=InspectionKind.ASSIGN, name=name, text=text, handle=handle, **more)  # type: ignore[arg-type]
        (found,) = self.look(question).variables
        return found

    def go_on(self, action: Action = Action.CONTINUE, text: str = "") -> RankInfo:
        """Let the rank run, and return it as it is when it stops elsewhere."""
        before = self._info().where
        self.ask(action, text)

        def stopped() -> RankInfo | None:
            info = self._info()
            return info if info.state is RankState.STOPPED and info.where != before else None

        return self._thread.do(self._switchboard.until(stopped, seconds(20)))

    def _info(self) -> RankInfo:
        (info,) = self._switchboard.directory.ranks
        return info


@contextmanager
def looking() -> Iterator[Look]:
    thread = LoopThread()

    async def open_switchboard() -> Switchboard:
        switchboard = switchboard_to(None, seconds(20))
        await switchboard.open()
        return switchboard

    switchboard = thread.do(open_switchboard())
    try:
        yield Look(switchboard, thread)
    finally:
        thread.do(switchboard.close())
        thread.end()
