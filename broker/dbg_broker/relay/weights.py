"""Flow: the weight of messages, in bytes of the rate that a connection may send, and the longest that are kept.

Each message counts its own bytes and its weight. A connection that has sent more than its rate is read later.
"""

from collections.abc import Mapping

from dbg_wire import limits
from dbg_wire.messages import Message, Pulse, Question, Replay, Sender, Subscribe

RATES: Mapping[Sender, int] = {Sender.AGENT: limits.MAX_REPORTED_PER_SECOND, Sender.CLIENT: limits.MAX_INPUT_PER_SECOND}
"""Bytes that a connection may send in a second, and as many at once."""

USUAL: Mapping[Sender, int] = {Sender.AGENT: 2 * limits.KIB, Sender.CLIENT: 256}
"""The weight of a message that is not in WEIGHTS, and of a frame that is no message. A rank sends 2,000 a second, far
above what keys and steps lead to, and a terminal a thousand, which cost 4 % of a broker's time."""

WEIGHTS: Mapping[type[Message], int] = {Replay: limits.MAX_INPUT_PER_SECOND}
"""The weight of messages that cost more: a log of 1 MiB goes to each terminal at the rank."""

OUTPUT = 256
"""The weight of a frame of output, which stands for its bytes, too: it is passed on unread."""

KEYS = 16
"""The weight of a frame of keys: 7,000 keys a second pass, a flood of empty frames does not."""

FOR_EACH_RANK: Mapping[type[Message], int] = {Question: 8, Subscribe: 8}
"""The weight of each rank that is asked or listed: 32,000 a second."""

FOR_EACH_RANK_OF_WATCHER = 64
"""The weight of each rank that a watcher asks: a stack costs a running rank time, and watchers are many."""

FOR_EACH_ONLOOKER = 64
"""The weight of each terminal that is told of what another one does: 4,000 a second."""


MAX_BYTES: Mapping[type[Message], int] = {Pulse: limits.MAX_STACK_BYTES + 16 * limits.KIB}
"""The most bytes of a message that a broker keeps of each rank; others have at most those of a frame."""


def weight_of(message: Message, sender: Sender) -> int:
    """Return the weight of a message, without the ranks that it is about."""
    return WEIGHTS.get(type(message), USUAL[sender])
