"""The claim of a process to a rank's place; its children inherit the claim in ``DBG_AUTOSTART``."""

from __future__ import annotations

import os
from enum import Enum

VARIABLE = "DBG_AUTOSTART"

NO_PLACE = "none"
"""The place of a program that no launcher has started."""

FRAMEWORK = "framework"
"""The launcher's name if only a library knows the rank; children of the process don't inherit it."""

RAY = "ray"
"""The launcher's name if an actor of Ray has its number in its variables."""

BY_LIBRARY = "lightning"
"""The launcher's name if a rank itself has started the other ranks."""


class JobPart(Enum):
    """The part of a process in the job."""

    RANK = "rank"
    LAUNCHER = "launcher"
    HELPER = "helper"


def has_claimed() -> bool:
    """Return True if this process itself has claimed to be the rank."""
    return claim_in(os.environ.get(VARIABLE, ""))[:2] == (os.getpid(), JobPart.RANK)


def parent_of(value: str, pid: int) -> tuple[str, str, int] | None:
    """Return job, run and rank of the parent of the process ``pid``, from the value of ``DBG_AUTOSTART``; pure.

    Return None if the value doesn't contain them. A value contains them only if no launcher has started the parent.
    """
    claimant, claimed, place = claim_in(value)
    names = value.rpartition(":")[2].split("/")
    if claimed is not JobPart.RANK or claimant == pid or place != NO_PLACE:
        return None
    if len(names) != 3 or not names[2].isdecimal():
        return None
    return names[0], names[1], int(names[2])


def claim_in(value: str) -> tuple[int | None, JobPart | None, str]:
    """Return the process, its part and the place of a claim; (None, None, "") if the value is not a claim yet."""
    part, _, rest = value.partition(":")
    pid, _, place = rest.partition(":")
    place = place.partition(":")[0]
    if part not in (JobPart.RANK.value, JobPart.LAUNCHER.value) or not pid.isdecimal():
        return None, None, ""
    return int(pid), JobPart(part), place
