"""Who has claimed the place of a rank for itself, handed down in ``DBG_AUTOSTART`` to all that a process starts."""

from __future__ import annotations

import os
from enum import Enum

VARIABLE = "DBG_AUTOSTART"

NO_PLACE = "none"
"""Place of a program that no launcher has started."""

FRAMEWORK = "framework"
"""Launcher's name where only a library knows which rank this is, which its children don't inherit."""

BY_LIBRARY = "lightning"
"""Launcher's name where a rank has started the others itself."""


class JobPart(Enum):
    """What a process is in the job."""

    RANK = "rank"
    LAUNCHER = "launcher"
    HELPER = "helper"


def claim() -> None:
    """Tell all that this process starts from now on that it is the rank; in the program's thread.

    Its place is what it is at this moment: a framework may have given it another one since it last said so.
    """
    claimed = f"{JobPart.RANK.value}:{os.getpid()}:{place_told(own_place())}"
    if os.environ.get(VARIABLE) != claimed:
        os.environ[VARIABLE] = claimed


def has_claimed() -> bool:
    """Say whether this process itself is the rank of what it starts."""
    return claim_in(os.environ.get(VARIABLE, ""))[:2] == (os.getpid(), JobPart.RANK)


def parent_of(value: str, pid: int) -> tuple[str, str, int] | None:
    """Return job, run and rank of which the process ``pid`` is a child, by the value of ``DBG_AUTOSTART``; pure.

    None if that doesn't say, as it does where launchers do.
    """
    claimant, claimed, place = claim_in(value)
    names = value.rpartition(":")[2].split("/")
    if claimed is not JobPart.RANK or claimant == pid or place != NO_PLACE:
        return None
    if len(names) != 3 or not names[2].isdecimal():
        return None
    return names[0], names[1], int(names[2])


def claim_in(value: str) -> tuple[int | None, JobPart | None, str]:
    """Return who has claimed which place as what; nothing if it is as ``run`` has set it."""
    part, _, rest = value.partition(":")
    pid, _, place = rest.partition(":")
    place = place.partition(":")[0]
    if part not in (JobPart.RANK.value, JobPart.LAUNCHER.value) or not pid.isdecimal():
        return None, None, ""
    return int(pid), JobPart(part), place


def own_place() -> str:
    """Return what launchers have made of this process: two have the same only if one is the other's child."""
    from .this_process import this_process

    me = this_process()
    return NO_PLACE if me.launcher in (NO_PLACE, FRAMEWORK) else f"{me.launcher}/{me.run}/{me.rank}"


def place_told(place: str) -> str:
    """Return a place as it is handed down: children that no launcher names can't know their parent's names."""
    if place != NO_PLACE:
        return place
    from .this_process import this_process

    me = this_process()
    return f"{place}:{me.job}/{me.run}/{me.rank}"
