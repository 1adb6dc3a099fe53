"""What is made of the answers of ranks that were asked for their stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbg_client.actions.many import ask_stops
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.breakpoints import StopState
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


class Asked:
    """An asker whose ranks answer with these rows."""

    def __init__(self, *answers: tuple[Kind, str, tuple[StopState, ...]]) -> None:
        self._answers = answers

    async def ask(self, action: Action, ranks: Sequence[RankInfo], *, stops: bool) -> list[RankAnswer]:
        assert (action, stops) == (Action.WHERE, True)
        return [
            RankAnswer(key=rank.key, kind=kind, text=text, rows=rows)
            for rank, (kind, text, rows) in zip(ranks, self._answers, strict=True)
        ]


async def told(*answers: tuple[Kind, str, tuple[StopState, ...]], **changes: Any) -> list[str]:
    ranks = [make_rank(number, **changes) for number in range(len(answers))]
    return (await ask_stops(Asked(*answers), ranks)).splitlines()  # type: ignore[arg-type]


async def test_what_ranks_say_is_a_table() -> None:
    rows = (StopState(stop="a.py:1", line=1, armed=True, hits=1),)
    assert await told((Kind.VALUE, "stopped", rows)) == ["a.py:1", "  armed in rank 0", "  hits: 1 in rank 0"]


async def test_a_stock_debugger_has_none(approved: Approved) -> None:
    (line,) = await told((Kind.VALUE, "running", ()), address="h1:?1")
    approved(line)


async def test_ranks_that_do_not_answer_are_told() -> None:
    assert await told((Kind.SILENT, "no answer in 10 s", ())) == ["rank 0: no answer in 10 s"]
    assert await told((Kind.VALUE, "", ()), state=RankState.UNRESPONSIVE) == ["rank 0: unresponsive"]
