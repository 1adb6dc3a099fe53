"""Flow control: weights of messages, in bytes of a connection's rate limit, and size limits of stored messages.

Each message costs its own bytes plus its weight. A connection that exceeds its rate is read later.
"""

from collections.abc import Mapping

from dbg_wire import limits
from dbg_wire.messages import Message, ProbeReply, Question, Replay, Sender, Subscribe

RATES: Mapping[Sender, int] = {Sender.AGENT: limits.MAX_REPORTED_PER_SECOND, Sender.CLIENT: limits.MAX_INPUT_PER_SECOND}
"""Rate limit of a connection, in bytes per second; also the size of a burst."""

USUAL: Mapping[Sender, int] = {Sender.AGENT: 2 * limits.KIB, Sender.CLIENT: 256}
"""Weight of a message that is not in WEIGHTS, and of a frame that is not a message. With this weight, a rank may send
2,000 messages a second, far more than keys and steps cause. A terminal may send a thousand a second, which cost 4 % of
a broker's time.
"""

WEIGHTS: Mapping[type[Message], int] = {Replay: limits.MAX_INPUT_PER_SECOND}
"""Weights of messages that cost more. A replay sends a log of 1 MiB to each terminal at the rank."""

OUTPUT = 256
"""Cost of a frame of output, regardless of its size, because the broker passes it on undecoded."""

KEYS = 16
"""Weight of a frame of keys: it permits 7,000 keys a second, and stops a flood of empty frames."""

FOR_EACH_RANK: Mapping[type[Message], int] = {Question: 8, Subscribe: 8}
"""Weight of each rank that is asked or listed: it permits 32,000 ranks a second."""

FOR_EACH_RANK_OF_WATCHER = 64
"""Weight of each rank that a watcher asks. It is higher, because a stack takes time of a running rank, and there may be
many watchers.
"""

FOR_EACH_ONLOOKER = 64
"""Weight of each terminal that is notified of another terminal's action: it permits 4,000 notices a second."""


MAX_BYTES: Mapping[type[Message], int] = {ProbeReply: limits.MAX_STACK_BYTES + 16 * limits.KIB}
"""Maximum size of messages that a broker stores for each rank, in bytes. Other messages may be as large as a frame."""


def weight_of(message: Message, sender: Sender) -> int:
    """Return the weight of a message, without the weight of the ranks in it."""
    return WEIGHTS.get(type(message), USUAL[sender])
