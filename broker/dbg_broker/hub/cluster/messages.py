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
from dbg_broker.ranks.rank_record import RankEnd
from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.messages import Register
from dbg_wire.records.bounds import Age, Count, FreeText, Key, Sentence
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


class MirroredRank(Record, array_like=True):
    """What is true of one rank of the sender.

    ``registration`` is that of the rank, with the number among the ranks of its address that the sender has given it, a
    digest in place of its secret, and its last report, without breakpoints. ``fence`` is the number of the claim by
    which the sender has the rank, ``where`` the last known place of one that has ended. All times, those of ``end`` as
    well, are seconds before the message was made: no broker's clock counts for another.
    """

    registration: Register
    state: RankState
    fence: Count
    since: Age
    heard: Age
    entered: Age
    waits_in: FreeText = ""
    end: RankEnd | None = None
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
    token and ``digest`` that of the token, ``peer`` where it dials from.
    """

    leg: Count
    role: Role
    name: Sentence
    token: Sentence
    job: Sentence | None
    digest: Digest
    peer: Sentence


class LegSaid(ClusterMessage, tag="said"):
    """Carry what a leg's terminal says, as a frame of a WebSocket: a control message, or keys."""

    leg: Count
    frame: Annotated[bytes, msgspec.Meta(max_length=limits.MAX_FRAME_BYTES)]


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


# ---------------------------------------------------------------------------------------------------------- log points


class LogText(ClusterMessage, tag="log"):
    """Carry the text of a log point at a rank of the sender; see Logged."""

    key: Key
    text: FreeText
    left_out: Count = 0


MESSAGES = (Hello, MirrorPage, Sync, OpenLeg, LegSaid, LegTaken, LegSilent, LegFrame, LegRest, CloseLeg, LogText)

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
