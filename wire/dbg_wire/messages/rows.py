"""What answers and questions hold beside texts: every kind of row, and every kind of inquiry."""

from typing import Annotated

from dbg_wire.limits import MAX_TEXT
from dbg_wire.records.beside import CommandEnd, CommandLine
from dbg_wire.records.bounds import FreeText, InvalidMessage, Items
from dbg_wire.records.evidence import CodePart, CodeSeen, CollectiveSeen, GroupSeen, ProcessSeen, SourceSeen, ThreadWait
from dbg_wire.records.inspection import Completion, ExceptionSeen, Inspection, Part, PartsQuestion, SourceText, Variable
from dbg_wire.records.line_breakpoints import BreakpointState, BreakpointsWish, StopState
from dbg_wire.records.ras import RasCommunicator, RasProcess, RasRank, RasSeen
from dbg_wire.records.record import Inquiry, length_of

AnyRow = (
    FreeText
    | SourceSeen
    | GroupSeen
    | CollectiveSeen
    | ThreadWait
    | ProcessSeen
    | CodeSeen
    | CodePart
    | RasSeen
    | RasCommunicator
    | RasRank
    | RasProcess
    | Variable
    | Completion
    | SourceText
    | ExceptionSeen
    | BreakpointState
    | StopState
    | Part
    | CommandEnd
)
"""A line of a screen, a piece of a command's output, or a record of what a rank tells."""

Rows = Annotated[tuple[AnyRow, ...], Items]

AnyInquiry = Inspection | BreakpointsWish | PartsQuestion | CommandLine


def check_inquiry(of: str, inquiry: Inquiry | None) -> None:
    """Refuse an inquiry whose texts are longer together than the text of a question may be."""
    length = length_of(inquiry)
    if length > MAX_TEXT:
        raise InvalidMessage(of, f".inquiry has {length} characters, above {MAX_TEXT}")
