"""What can go wrong in a program that uses the library, beside what the terminal tells, too."""

from __future__ import annotations

from dbg_wire.errors import DbgError, printable


class RankError(DbgError):
    """Say what one rank has answered instead of a value: the exception of an expression, or that it runs."""

    def __init__(self, address: str, text: str, kind: str) -> None:
        super().__init__(address, text, kind)
        self.address = address
        self.text = text
        self.kind = kind
        """``error``, ``running``, ``silent`` or ``lost``, as in the JSON of the command line."""

    def __str__(self) -> str:
        return f"{printable(self.address)}: {printable(self.text)}"


class StopEnded(DbgError):
    """Say that the stop has ended, so that nothing can be asked of it any more."""

    exit_status = 7

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return f"the stop of {printable(self.address)} is over ({printable(self.why)}); wait() returns at its next stop"


class KeyboardTaken(DbgError):
    """Say that another terminal types at the rank."""

    exit_status = 5

    def __init__(self, address: str, driver: str | None) -> None:
        super().__init__(address, driver)
        self.address = address
        self.driver = driver

    def __str__(self) -> str:
        who = printable(self.driver) if self.driver else "another terminal"
        return f"{who} types at {printable(self.address)}; attach with take=True to take the keyboard"
