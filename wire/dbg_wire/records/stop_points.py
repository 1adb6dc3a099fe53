"""Stops that a user names without changing the code: ``FILE:LINE[, CONDITION]`` and ``MODULE:FUNCTION``.

The command line parses the stops before it starts a job, and each rank parses them again from its environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dbg_wire.errors import BadInput, printable

MAX_STOPS = 100
"""Maximum number of stops of one job: no person names more."""

_STOP_AT = re.compile(r"(?P<file>.+?):(?P<line>[0-9]{1,9})\s*(?:,\s*(?P<condition>.+))?", re.DOTALL)

_STOP_IN = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAt:
    """Stop at a line of a file, optionally only if an expression is true there."""

    file: str
    line: int
    condition: str | None = None

    def __str__(self) -> str:
        """Return the stop as an option of the command line."""
        return f"--stop-at {self.typed}"

    @property
    def typed(self) -> str:
        """``FILE:LINE[, CONDITION]``: the value of the option ``--stop-at``, and the form in a rank's environment."""
        return self.place if self.condition is None else f"{self.place}, {self.condition}"

    @property
    def place(self) -> str:
        """Place without the condition, such as ``train.py:38``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopIn:
    """Stop at the start of a function of a module, given by its qualified name."""

    module: str
    function: str

    def __str__(self) -> str:
        """Return the stop as an option of the command line."""
        return f"--stop-in {self.typed}"

    @property
    def typed(self) -> str:
        """Function, such as ``train:main``."""
        return f"{self.module}:{self.function}"

    place = typed


def parse_stop_at(text: str) -> StopAt:
    """Parse ``FILE:LINE[, CONDITION]``. Raise BadInput if it is invalid."""
    found = _STOP_AT.fullmatch(text.strip())
    if found is None or int(found["line"]) == 0 or "\n" in text.strip():
        raise BadInput(f"{printable(text)!r} is not a place to stop at", "write FILE:LINE or FILE:LINE, CONDITION")
    condition = found["condition"]
    if condition is not None:
        try:
            compile(condition, "<condition>", "eval", dont_inherit=True)
        except (SyntaxError, ValueError):
            raise BadInput(
                f"the condition {printable(condition)!r} is not a Python expression", "correct it or leave it out"
            ) from None
    return StopAt(file=found["file"], line=int(found["line"]), condition=condition)


def parse_stop_in(text: str) -> StopIn:
    """Parse ``MODULE:FUNCTION``. Raise BadInput if it is invalid."""
    found = _STOP_IN.fullmatch(text.strip())
    if found is None:
        raise BadInput(
            f"{printable(text)!r} is not a function to stop in", "write MODULE:FUNCTION or MODULE:CLASS.METHOD"
        )
    return StopIn(module=found["module"], function=found["function"])


def parse_stops(stop_at: str, stop_in: str) -> tuple[list[StopAt | StopIn], list[BadInput]]:
    """Return the valid stops in the two variables, and an error for each invalid one. Raise nothing."""
    stops: list[StopAt | StopIn] = []
    problems = []
    for parse, text in ((parse_stop_at, stop_at), (parse_stop_in, stop_in)):
        for line in text.split("\n"):
            if not line.strip():
                continue
            try:
                stops.append(parse(line))
            except BadInput as problem:
                problems.append(problem)
    if len(stops) > MAX_STOPS:
        problems.append(BadInput(f"{len(stops)} stops are named", f"only the first {MAX_STOPS} are used"))
    return stops[:MAX_STOPS], problems
