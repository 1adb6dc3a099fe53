"""The work of a whole command grows with the number of ranks and not faster."""

from __future__ import annotations

import pytest

from dbg_client.command_line.main import main
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.support.calls import calls_of
from tests.unit.client.fake_broker import FakeBroker, make_rank

FEW = 1000

COMMANDS = [
    "list",
    "list --json",
    "list stopped",
    "list gpu*:*",
    "where",
    "where --json",
    "why",
    "why --json",
    "slow",
    "collectives",
    "eval all loss",
    "eval --live all loss",
    "eval all loss --json",
    "eval !5 loss",
    "command all n",
    "exec all -- true",
    "screen all",
    "interrupt all -y",
    "continue all -y",
    "release all -y",
    "kill all -y",
    "report",
]

STATES = (
    RankState.STOPPED,
    RankState.RUNNING,
    RankState.HELD,
    RankState.LOST,
    RankState.EXITED,
    RankState.UNRESPONSIVE,
)


def rank(number: int, count: int) -> RankInfo:
    """Return a rank of a job of which a tenth never came, in a state and at a place that few others share."""
    host = f"gpu{number // 8:04}"
    return make_rank(
        number,
        key=f"4711.0/0.0/{host}:{number}/{8800 + number}",
        address=f"{host}:{number}",
        host=host,
        world_size=count + count // 10,
        state=STATES[number % len(STATES)],
        where=Place(file="/x/a.py", line=number % 997 + 1, function=f"f{number}"),
    )


def calls_for(count: int, command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many calls a command takes for a job of which most ranks answer something of their own."""
    ranks = [rank(number, count) for number in range(count)]
    main_place = Place(file="/x/m.py", line=1, function="main")
    with FakeBroker(*ranks) as broker:
        broker.answers_by_key = {
            one.key: RankAnswer(key="", kind=Kind.VALUE, text=f"value {number}", frames=(main_place, one.where))
            for number, one in enumerate(ranks)
            if number % 7 and one.where is not None
        }
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        return calls_of(lambda: main(command.split()))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("capsys")
def test_twice_the_ranks_take_twice_the_work(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls_for(2 * FEW, command, monkeypatch) < 2.3 * calls_for(FEW, command, monkeypatch)
