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
from dbg_broker.hub.cluster.members import Presence
from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.messages import Register
from dbg_wire.records.bounds import Age, Count, FreeText, Integer, Key, Sentence
from dbg_wire.records.ranks import NO_SEATS, Place, RankState, SeatCounts
from dbg_wire.records.record import Record

MAX_RANKS_OF_PAGE = 4096
"""Ranks in one page of a mirror: more than a page of its bytes holds."""

Digest = Annotated[bytes, msgspec.Meta(max_length=32)]
"""A SHA-256, or no bytes where there is none."""


class ClusterMessage(Record, array_like=True):
    """A message from one broker to another. Later releases append fields, and earlier ones leave those out."""


# ------------------------------------------------------------------------------------------------------------- members


class Hello(ClusterMessage, tag="hello"):
    """Introduce the sender, before all else that it says to a broker.

    ``answers`` tells whether it answers such a message: then the sender had not known the receiver until that came.
    """

    presence: Presence
    answers: bool


# ----------------------------------------------------------------------------------------------------------- the mirror


class MirroredEnd(Record, array_like=True):
    """How a rank of another broker has ended, as far as that is known there; see RankEnd.

    ``ago`` and ``left`` are seconds before the message was made.
    """

    ago: Age
    left: Age
    exit: Integer | None = None
    died: bool = False
    detail: FreeText = ""
    signal: Integer | None = None
    status: Integer | None = None
    core: FreeText = ""
    cause: FreeText = ""
    signal_told: FreeText = ""


class MirroredAges(Record, array_like=True):
    """The times of a rank's record, as seconds before the message was made: no broker's clock counts for another."""

    since: Age
    heard: Age
    entered: Age


class MirroredRank(Record, array_like=True):
    """What is true of one rank of the sender.

    ``registration`` is that of the rank, with the number among the ranks of its address that the sender has given it, a
    digest in place of its secret, and its last report, without breakpoints. ``fence`` is the number of the claim by
    which the sender has the rank, ``where`` the last known place of one that has ended.
    """

    registration: Register
    state: RankState
    fence: Count
    ages: MirroredAges
    waits_in: FreeText = ""
    end: MirroredEnd | None = None
    seats: SeatCounts = NO_SEATS
    where: Place | None = None


class MirrorPage(ClusterMessage, tag="mirror"):
    """Tell what is true of ranks of the sender, a page at a time; ``gone`` are keys that it lists no more.

    ``ends`` is the number of the :class:`Sync` that is answered whole by now, 0 for none: ranks of the sender that no
    page had since then are gone.
    """

    ranks: Annotated[tuple[MirroredRank, ...], msgspec.Meta(max_length=MAX_RANKS_OF_PAGE)] = ()
    gone: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MAX_RANKS_OF_PAGE)] = ()
    ends: Count = 0


class Sync(ClusterMessage, tag="sync"):
    """Ask a broker for all its ranks: the sender has just come, or has missed messages.

    ``number`` tells it from those that the sender has asked before, which may still be being answered.
    """

    number: Count


# ------------------------------------------------------------------------------------------------------------- the legs


class OpenLeg(ClusterMessage, tag="open"):
    """Begin a leg: a terminal of the sender wants something of a rank of the receiver.

    ``leg`` is a number of the sender's, and no leg has it again. ``name`` is the terminal's, ``token`` the name of its
    token and ``digest`` that of the token, ``peer`` where it dials from. With ``logs`` it is the sender itself that
    asks for the texts of log points, for its own terminals.
    """

    leg: Count
    role: Role
    name: Sentence
    token: Sentence
    job: Sentence | None
    digest: Digest
    peer: Sentence
    logs: bool = False


class LegText(ClusterMessage, tag="text"):
    """Carry a control message of a leg's terminal, as it is on the wire."""

    leg: Count
    text: Annotated[bytes, msgspec.Meta(max_length=limits.MAX_CONTROL_BYTES)]


class LegData(ClusterMessage, tag="data"):
    """Carry a binary frame of a leg's terminal, unread: keys."""

    leg: Count
    data: Annotated[bytes, msgspec.Meta(max_length=limits.MAX_CONTROL_BYTES)]


class LegTaken(ClusterMessage, tag="taken"):
    """Give back credit: the terminal's own connection has taken so many bytes of its leg.

    With ``missed`` that connection has dropped output, and can take a repaint.
    """

    leg: Count
    count: Count
    missed: bool = False


class LegSilent(ClusterMessage, tag="silent"):
    """Tell for how many seconds nothing has been heard of a leg's terminal; 0 if it is there."""

    leg: Count
    seconds: Age


class LegFrame(ClusterMessage, tag="frame"):
    """Carry a frame of a WebSocket to a leg's terminal, as its connection takes it."""

    leg: Count
    frame: bytes


class LegRest(ClusterMessage, tag="rest"):
    """Have nothing read of a leg's terminal for some seconds: it has asked for more than its rate allows."""

    leg: Count
    seconds: Age


class CloseLeg(ClusterMessage, tag="close"):
    """End a leg; ``by_terminal`` tells whether its terminal's broker ends it. ``code`` is one of a WebSocket."""

    leg: Count
    by_terminal: bool
    code: Count
    reason: Sentence = ""


MESSAGES = (Hello, MirrorPage, Sync, OpenLeg, LegText, LegData, LegTaken, LegSilent, LegFrame, LegRest, CloseLeg)

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
