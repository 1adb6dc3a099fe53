"""Check what a program or an agent has given before it is sent: a wrong value is an error of the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dbg_wire.errors import BadInput
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.record import checked

P = ParamSpec("P")
R = TypeVar("R")


def given(make: Callable[P, R], *args: P.args, **values: P.kwargs) -> R:
    """Return a record of these values. Raises BadInput, which names the first wrong one."""
    try:
        return checked(make(*args, **values))  # type: ignore[type-var] # a record's class
    except InvalidMessage as error:
        raise BadInput(error.suffix.strip().lstrip("."), "give another one") from None
