"""What brokers tell each other: one record for each message, in MessagePack.

The sender of a message is known from the bus. Brokers of a cluster trust each other, as the credentials for NATS say
who is one; a message that can't be read is a fault, or of a later release, and is left out.
"""

from __future__ import annotations

import typing
from functools import cache
from typing import Annotated, Any

import msgspec

from dbg_broker.home.bearer import Role
from dbg_wire.errors import PeerError
from dbg_wire.messages import RankReport
from dbg_wire.records.bounds import Age, Count, Integer, Key, Path, Pid, Sentence
from dbg_wire.records.ranks import Place, Placement, RankIdentity, RankProcess, RankState, SeatCounts
from dbg_wire.records.record import Record

MAX_RANKS_OF_PAGE = 4096
"""Ranks in one page of a mirror: more than a page of its bytes holds."""

Digest = Annotated[bytes, msgspec.Meta(max_length=32)]
"""A SHA-256, or no bytes where there is none."""


class ClusterMessage(Record, array_like=True):
    """A message from one broker to another. Later releases append fields, and earlier ones leave those out."""


# ----------------------------------------------------------------------------------------------------------- the mirror


class MirroredEnd(Record, array_like=True):
    """How a rank of another broker has ended; ``ago`` and ``left`` are seconds before the message was made."""

    ago: Age = 0.0
    left: Age = 0.0
    exit: Integer | None = None
    died: bool = False
    detail: Sentence = ""


class MirroredAges(Record, array_like=True):
    """The times of a rank's record, as seconds before the message was made: no broker's clock counts for another."""

    since: Age
    heard: Age
    entered: Age


class MirroredRank(Record, array_like=True):
    """What is true of one rank of the sender.

    ``secret`` is the digest of the rank's secret. ``report`` is without breakpoints. ``fence`` is the number of the
    claim by which the sender has the rank.
    """

    identity: RankIdentity
    process: RankProcess
    placement: Placement | None
    ancestors: Annotated[tuple[Pid, ...], msgspec.Meta(max_length=64)]
    kernel: Path
    secret: Digest
    report: RankReport
    state: RankState
    child: Count | None
    fence: Count
    ages: MirroredAges
    waits_in: Sentence = ""
    end: MirroredEnd | None = None
    seats: SeatCounts = SeatCounts()
    place: Place | None = None


class Mirror(ClusterMessage, tag="mirror"):
    """Tell what is true of ranks of the sender, a page at a time; ``gone`` are keys that it lists no more.

    ``last`` ends the answer to a :class:`Sync`: ranks of the sender that none of its pages had are gone.
    """

    ranks: Annotated[tuple[MirroredRank, ...], msgspec.Meta(max_length=MAX_RANKS_OF_PAGE)] = ()
    gone: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MAX_RANKS_OF_PAGE)] = ()
    last: bool = False


class Sync(ClusterMessage, tag="sync"):
    """Ask a broker for all its ranks: the sender has just come, or has missed messages."""


# ------------------------------------------------------------------------------------------------------------- the legs


class OpenLeg(ClusterMessage, tag="open"):
    """Begin a leg: a terminal of the sender wants something of a rank of the receiver.

    ``leg`` is a number of the sender's; ``name`` is the terminal's, ``token`` the name of its token and ``digest`` that
    of the token, ``peer`` where it dials from.
    """

    leg: Count
    role: Role
    name: Sentence
    token: Sentence
    job: Sentence | None
    digest: Digest
    peer: Sentence


class LegText(ClusterMessage, tag="text"):
    """Carry a control message of a leg's terminal to its rank's broker, or back, as it is on the wire."""

    leg: Count
    text: bytes


class LegData(ClusterMessage, tag="data"):
    """Carry a binary frame of a leg, unread: keys one way, output the other."""

    leg: Count
    data: bytes


class LegTaken(ClusterMessage, tag="taken"):
    """Give back credit: the terminal's own connection has taken so many bytes of its leg."""

    leg: Count
    count: Count


class LegSilent(ClusterMessage, tag="silent"):
    """Tell for how many seconds nothing has been heard of a leg's terminal."""

    leg: Count
    seconds: Age


class CloseLeg(ClusterMessage, tag="close"):
    """End a leg; ``by_terminal`` tells whether its terminal's broker ends it. ``code`` is one of a WebSocket."""

    leg: Count
    by_terminal: bool
    code: Count
    reason: Sentence = ""


MESSAGES = (Mirror, Sync, OpenLeg, LegText, LegData, LegTaken, LegSilent, CloseLeg)

_encoder = msgspec.msgpack.Encoder()


def encode(message: ClusterMessage) -> bytes:
    """Return a message as the bus carries it."""
    return _encoder.encode(message)


def decode(payload: bytes) -> ClusterMessage:
    """Return the message in a payload. Raise PeerError if it is none that this release knows."""
    try:
        return typing.cast(ClusterMessage, _decoder().decode(payload))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise PeerError(f"a message between brokers that can't be read ({error})") from None


@cache
def _decoder() -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(typing.Union[MESSAGES])  # noqa: UP007 - the members are known at run time only
