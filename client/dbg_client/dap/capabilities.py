"""What this adapter can do, and what its client can. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_client.dap.asked_breakpoints import EXCEPTION_FILTERS
from dbg_client.dap.messages import Message
from dbg_wire.errors import printable

MAX_NAME = 40
"""Characters of a client's name."""

UNNAMED = "IDE"
"""The name of a client that tells none."""

SHORT_NAMES = {"Visual Studio Code": "VS Code", "Visual Studio Code - Insiders": "VS Code Insiders"}
"""What people call a client that tells a longer name: it stands in the lines of many terminals."""

CAPABILITIES: Message = {
    "supportsConfigurationDoneRequest": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsCompletionsRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportsSingleThreadExecutionRequests": True,
    "supportsCancelRequest": True,
    "supportsDelayedStackTraceLoading": True,
    "supportsClipboardContext": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "exceptionBreakpointFilters": EXCEPTION_FILTERS,
    "supportTerminateDebuggee": False,
    "supportSuspendDebuggee": False,
    "supportsRestartFrame": False,
    "supportsStepBack": False,
    "supportsGotoTargetsRequest": False,
}


@dataclass(frozen=True, slots=True)
class Client:
    """What the IDE has said of itself. Lines and columns count from ``first_line`` and ``first_column``."""

    name: str = UNNAMED
    first_line: int = 1
    first_column: int = 1
    knows_invalidated: bool = False

    @classmethod
    def read(cls, arguments: Message) -> Client:
        """Return what the arguments of ``initialize`` say; what is missing is as the protocol has it."""
        said = arguments.get("clientName") or arguments.get("clientID")
        name = printable(said, MAX_NAME).strip() if isinstance(said, str) else ""
        return cls(
            name=SHORT_NAMES.get(name, name) or UNNAMED,
            first_line=0 if arguments.get("linesStartAt1") is False else 1,
            first_column=0 if arguments.get("columnsStartAt1") is False else 1,
            knows_invalidated=arguments.get("supportsInvalidatedEvent") is True,
        )
