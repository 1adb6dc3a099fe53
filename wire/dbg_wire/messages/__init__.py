"""All control messages, each with the roles that may send it.

Messages are frozen. A report contains the complete state of a rank, not a change, so a peer that missed reports is up
to date after the next one. ``PROTOCOL.md``, next to this package, is normative.
"""

from dbg_wire.messages.declared import (
    GUARD_ACTIONS,
    Action,
    AnswerBody,
    DetailLevel,
    Finding,
    Kind,
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
    Differs,
    Digests,
    Discarded,
    Goodbye,
    GuardReport,
    Notice,
    ProbeReply,
    PromptInfo,
    RankReport,
    Register,
    Replied,
    Report,
    SessionInfo,
    StopInfo,
    Waiting,
    answer_to,
)
from dbg_wire.messages.from_broker import (
    Answers,
    Ask,
    BrokerAddress,
    Change,
    Chosen,
    ChosenRank,
    Gone,
    KeptRanks,
    Logged,
    Probe,
    RankAnswer,
    Refusal,
    SameAnswer,
    Seat,
    Snapshot,
    Viewers,
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

# Lazy imports (Python 3.15) delay the import of a module until one of its classes is used. MESSAGES needs all modules.
_ONE_OF_EACH_MODULE = (Register, Welcome, Greet)

MESSAGES: tuple[type[Message], ...] = tuple(entered)
"""Every class of message."""
