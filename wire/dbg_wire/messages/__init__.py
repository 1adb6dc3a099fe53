"""All control messages, and which role may send each.

Messages are frozen. A report holds the whole state of a rank, not a change: a peer that missed any number of reports is
up to date after the next one. ``PROTOCOL.md``, beside this package, is normative.
"""

from dbg_wire.messages.declared import (
    GUARD_ACTIONS,
    Action,
    AnswerBody,
    Finding,
    Kind,
    Look,
    Message,
    Mode,
    PromptState,
    RefusalCode,
    Sender,
    body_of,
    entered,
)
from dbg_wire.messages.from_agents import (
    KINDS_OF_AGENTS,
    MAX_ANCESTORS,
    REPORTED_STATES,
    Answer,
    Applied,
    Arrival,
    Completions,
    Discarded,
    Goodbye,
    Notice,
    PromptInfo,
    Pulse,
    RankReport,
    Register,
    Replied,
    Report,
    SessionInfo,
    StopInfo,
    Testimony,
    Waiting,
    answer_to,
)
from dbg_wire.messages.from_broker import (
    Answers,
    Ask,
    Audience,
    BrokerAddress,
    Change,
    Chosen,
    ChosenRank,
    Gone,
    Kept,
    Logged,
    Probe,
    RankAnswer,
    Refusal,
    SameAnswer,
    Seat,
    Snapshot,
    Welcome,
)
from dbg_wire.messages.from_clients import (
    Attach,
    Complete,
    Detach,
    Greet,
    Hang,
    Interrupt,
    Question,
    Repaint,
    Replay,
    Reply,
    Resize,
    Subscribe,
    Take,
    Withdraw,
)

# Where imports are lazy, the use of one class of a module imports it, and so declares all of its messages.
_ONE_OF_EACH_MODULE = (Register, Welcome, Greet)

MESSAGES: tuple[type[Message], ...] = tuple(entered)
"""Every class of message."""
