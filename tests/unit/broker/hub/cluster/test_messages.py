"""What brokers tell each other, on the bus and back."""

from __future__ import annotations

import msgspec
import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.hub.cluster.messages import (
    MESSAGES,
    CloseLeg,
    ClusterMessage,
    Hello,
    LegFrame,
    LegRest,
    LegSaid,
    LegSilent,
    LegTaken,
    LogText,
    MirroredRank,
    MirrorPage,
    OpenLeg,
    Sync,
    decode,
    encode,
)
from dbg_broker.ranks.rank_record import RankEnd
from dbg_wire.errors import PeerError
from dbg_wire.records.ranks import RankState
from tests.unit.broker.hub.cluster.brokers import presence
from tests.unit.broker.peers import registration

RANK = MirroredRank(
    registration=registration(child=1, secret="5" * 64),
    state=RankState.LOST,
    fence=7,
    since=1.5,
    heard=2.5,
    entered=3.5,
    end=RankEnd(at=0.5, left=0.5, exit=1, died=True, detail="killed"),
)

EXAMPLES: tuple[ClusterMessage, ...] = (
    Hello(presence=presence("other"), answers=True),
    MirrorPage(ranks=(RANK,), gone=("other",), ends=3),
    Sync(number=3),
    OpenLeg(leg=1, role=Role.DRIVER, name="me@host", token="", job=None, digest=b"d" * 32, peer="10.0.0.1:5"),
    LegSaid(leg=1, frame=b"\x82\x01n"),
    LegTaken(leg=1, count=4096),
    LegSilent(leg=1, seconds=3.5),
    LegFrame(leg=1, frame=b"\x81\x02{}"),
    LegRest(leg=1, seconds=0.5),
    CloseLeg(leg=1, by_terminal=True, code=1001, reason="it ends"),
    LogText(key="4711.0/0/gpu013:0/8800", text="loss=0.5", left_out=2),
)


def test_each_message_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(MESSAGES)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: ClusterMessage) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"\x91\xa5later",
        b"\x93\xa4said\x01",
        b"\x93\xa4said\xff\xc4\x01x",
        msgspec.msgpack.encode(["open", 1]),
    ],
)
def test_bytes_that_are_no_message_are_refused(payload: bytes) -> None:
    with pytest.raises(PeerError, match="can't be read"):
        decode(payload)


def test_a_field_of_a_later_release_is_left_out() -> None:
    later = msgspec.msgpack.encode(["taken", 1, 4096, False, "what comes later"])
    assert decode(later) == LegTaken(leg=1, count=4096)
