"""The claim of a process to be a rank; its children inherit the claim in the variable ``DBG_AUTOSTART``.

Children also inherit the launcher's variables, which make them look like the rank. The claim shows them that another
process is the rank. It contains the rank's place: the launcher's name, the run and the rank number.
"""

from __future__ import annotations

import os
from enum import Enum

VARIABLE = "DBG_AUTOSTART"

NO_PLACE = "none"
"""The place of a program that no launcher has started."""

FRAMEWORK = "framework"
"""The launcher's name if only a library, such as torch.distributed, knows the rank. No variable has the number, so
children don't inherit it."""

RAY = "ray"
"""The launcher's name if the process is an actor of Ray with its rank number in its environment variables."""

BY_LIBRARY = "lightning"
"""The launcher's name if Lightning, a library in the first rank of each host, has started the other ranks there."""


class JobPart(Enum):
    """The role of a process in the job."""

    RANK = "rank"
    LAUNCHER = "launcher"
    HELPER = "helper"


def has_claimed() -> bool:
    """Return True if this process itself has claimed to be the rank."""
    return claim_in(os.environ.get(VARIABLE, ""))[:2] == (os.getpid(), JobPart.RANK)


def parent_of(value: str, pid: int) -> tuple[str, str, int] | None:
    """Return job, run and rank of the parent of the process ``pid``, from the value of ``DBG_AUTOSTART``; pure.

    Return None if the value doesn't contain them. If a launcher has started the parent, the value omits them, because
    the child inherits the launcher's variables.
    """
    claimant, claimed, place = claim_in(value)
    names = value.rpartition(":")[2].split("/")
    if claimed is not JobPart.RANK or claimant == pid or place != NO_PLACE:
        return None
    if len(names) != 3 or not names[2].isdecimal():
        return None
    return names[0], names[1], int(names[2])


def claim_in(value: str) -> tuple[int | None, JobPart | None, str]:
    """Return the process id, the role and the place in a claim; (None, None, "") if the value is not a claim."""
    part, _, rest = value.partition(":")
    pid, _, place = rest.partition(":")
    place = place.partition(":")[0]
    if part not in (JobPart.RANK.value, JobPart.LAUNCHER.value) or not pid.isdecimal():
        return None, None, ""
    return int(pid), JobPart(part), place
