"""Why a process can't be made a rank, each in one sentence with what to do."""

from __future__ import annotations

from dbg_wire.errors import DbgError, printable


class CantAdopt(DbgError):
    """Say why a process was left as it is, and what its user or an administrator can do."""

    def __init__(self, who: str, why: str, remedy: str) -> None:
        super().__init__(who, why, remedy)
        self.who = who
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{printable(self.who)} {printable(self.why)}; {printable(self.remedy)}"


class NoSuchProcess(CantAdopt):
    """Say that there is no process of this number."""

    exit_status = 3


class NothingToAdopt(DbgError):
    """Say that no process of the user looks like a rank."""

    exit_status = 3

    def __str__(self) -> str:
        return (
            "none of your processes here is a Python program that a launcher started; `dbg-attach adopt PID` takes "
            "any Python program"
        )


class DebuggerFailed(DbgError):
    """Say what gdb could not do, in its own words."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"gdb failed: {printable(self.text)}; the process goes on as it was"


class LeftInCall(DebuggerFailed):
    """Say that a thread was left in the midst of a call: gdb was ended from outside, or the process has ended."""

    def __str__(self) -> str:
        return f"gdb failed: {printable(self.text)}; the process was in the midst of a call, and will not survive it"


class NotAttached(DebuggerFailed):
    """Say that gdb could not stop the process: it is traced already, or has ended."""
