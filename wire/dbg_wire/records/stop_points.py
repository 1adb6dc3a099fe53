"""How a user names a stop without a change of the code: ``FILE:LINE[, CONDITION]`` and ``MODULE:FUNCTION``.

The command line reads the stops before it starts a job, and each rank reads them again from its environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dbg_wire.errors import BadInput, printable

MAX_STOPS = 100
"""Stops of one job: no person names more."""

_STOP_AT = re.compile(r"(?P<file>.+?):(?P<line>[0-9]{1,9})\s*(?:,\s*(?P<condition>.+))?", re.DOTALL)

_STOP_IN = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAt:
    """A line of a file, and perhaps the expression that must be true there."""

    file: str
    line: int
    condition: str | None = None

    def __str__(self) -> str:
        """Return it as an option."""
        return f"--stop-at {self.typed}"

    @property
    def typed(self) -> str:
        """Return the option's value, which ranks are told."""
        return self.place if self.condition is None else f"{self.place}, {self.condition}"

    @property
    def place(self) -> str:
        """Return the place without its condition, such as ``train.py:38``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopIn:
    """A function of a module, by its qualified name."""

    module: str
    function: str

    def __str__(self) -> str:
        """Return it as an option."""
        return f"--stop-in {self.typed}"

    @property
    def typed(self) -> str:
        """Return the function, such as ``train:main``."""
        return f"{self.module}:{self.function}"

    place = typed


def parse_stop_at(text: str) -> StopAt:
    """Return what ``FILE:LINE[, CONDITION]`` names; raise BadInput if it can't be read."""
    found = _STOP_AT.fullmatch(text.strip())
    if found is None or int(found["line"]) == 0 or "\n" in text.strip():
        raise BadInput(f"{printable(text)!r} is no place to stop at", "say FILE:LINE or FILE:LINE, CONDITION")
    condition = found["condition"]
    if condition is not None:
        try:
            compile(condition, "<condition>", "eval", dont_inherit=True)
        except (SyntaxError, ValueError):
            raise BadInput(
                f"the condition {printable(condition)!r} is no Python expression", "mend it, or leave it out"
            ) from None
    return StopAt(file=found["file"], line=int(found["line"]), condition=condition)


def parse_stop_in(text: str) -> StopIn:
    """Return what ``MODULE:FUNCTION`` names; raise BadInput if it can't be read."""
    found = _STOP_IN.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{printable(text)!r} is no function to stop in", "say MODULE:FUNCTION or MODULE:CLASS.METHOD")
    return StopIn(module=found["module"], function=found["function"])


def parse_stops(stop_at: str, stop_in: str) -> tuple[list[StopAt | StopIn], list[BadInput]]:
    """Return the stops that the two variables name, and what is wrong with the others. Raise nothing."""
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
        problems.append(BadInput(f"{len(stops)} stops are named", f"only the first {MAX_STOPS} count"))
    return stops[:MAX_STOPS], problems
