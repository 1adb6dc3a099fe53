"""All control messages, and which role may send each.

Messages are frozen. A report holds the whole state of a rank, not a change: a peer that missed any number of reports is
up to date after the next one. ``PROTOCOL.md``, beside this package, is normative.
"""

from dbg_wire.messages.answers import AnswerBody, body_of
from dbg_wire.messages.declared import Message, entered
from dbg_wire.messages.from_agents import (
    KINDS_OF_AGENTS,
    MAX_ANCESTORS,
    Answer,
    Applied,
    Completions,
    Discarded,
    Goodbye,
    Notice,
    Pulse,
    Register,
    Replied,
    Report,
    Source,
    Testimony,
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
from dbg_wire.messages.report import REPORTED_STATES, Arrival, PromptInfo, RankReport, SessionInfo, StopInfo, Waiting
from dbg_wire.messages.vocabulary import (
    GUARD_ACTIONS,
    Action,
    Finding,
    Kind,
    Look,
    Mode,
    PromptState,
    RefusalCode,
    Sender,
)

# Where imports are lazy, the use of one class of a module imports it, and so declares all of its messages.
_ONE_OF_EACH_MODULE = (Register, Welcome, Greet)

MESSAGES: tuple[type[Message], ...] = tuple(entered)
"""Every class of message."""
