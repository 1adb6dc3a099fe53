"""Attacks of ranks, which have a rank's token; each a function for ``attacker.py`` that goes on until it is killed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from websockets.frames import Frame, Opcode

from dbg_wire.codec import Output, encode_data
from dbg_wire.messages import Arrival, Goodbye, Message, RankReport, Report, StopInfo, Waiting
from dbg_wire.records.ranks import Place, RankState
from tests.full.attacks.attacker import Begun
from tests.full.attacks.flood import Load, binary, flood, text
from tests.full.attacks.target import Target
from tests.unit.broker.peers import RUNNING, STOPPED, registration

WORLD = 4096
PLACE = Place(file="/f", line=1, function="f")
LONG = "x" * 4000


def rank_load(number: int, *again: Message | str, times: int = 20, **changes: Any) -> Load:
    """Return a rank that registers and sends the same over and over."""
    first = text(registration(number, **{"report": RUNNING, "world_size": WORLD, **changes}))
    return Load("rank", first, b"".join(map(text, again)) * times)


def many_objects(target: Target, begun: Begun, *, count: int = 20) -> None:
    """Send messages of as many objects as they have room for."""
    junk = '{"type":"probe_reply","where":null,"x":[' + ",".join(["{}"] * 300_000) + "]}"
    flood(target, begun, [rank_load(number, junk, times=1) for number in range(count)])


def holds(target: Target, begun: Begun, *, count: int = 100) -> None:
    """Be held for all ranks of the job, each rank at a site of its own, and have the others arrive there."""

    def held(number: int, round_: int) -> Report:
        stop = StopInfo(number=1, reason="hold", where=PLACE, age=0.0, thread="t")
        waits = Waiting(site=f"s{number}.{round_}", count=1, ranks=tuple(range(WORLD)))
        arrivals = tuple(Arrival(site=f"s{other}.{round_}", arrived=1, completed=0) for other in range(50))
        return Report(report=RankReport(state=RankState.HELD, stop=stop, waits=waits, arrivals=arrivals))

    flood(target, begun, [rank_load(number, held(number, 0), held(number, 1), times=1) for number in range(count)])


def comings(target: Target, begun: Begun, *, count: int = 32) -> None:
    """Register under the longest names, say goodbye, and come back."""
    lines = []
    for number in range(count):
        register = registration(number, report=RUNNING, script="/" + LONG, directory="/" + LONG)
        lines.append(Load("rank", text(register) + text(Goodbye(exit=1)), comes_back=True))
    flood(target, begun, lines)


def pings(target: Target, begun: Begun, *, count: int = 100) -> None:
    """Send pings, whose answers nobody reads."""
    ping = Frame(Opcode.PING, b"").serialize(mask=True) * 500
    flood(target, begun, [replace(rank_load(number), again=ping, reads=False) for number in range(count)])


def output(target: Target, begun: Begun, *, count: int = 50, size: int = 1, times: int = 200) -> None:
    """Send output in pieces of one size."""
    piece = binary(encode_data(Output(session=1, offset=0, data=b"x" * size))) * times
    lines = [rank_load(number, report=STOPPED) for number in range(count)]
    flood(target, begun, [replace(line, again=piece) for line in lines])
