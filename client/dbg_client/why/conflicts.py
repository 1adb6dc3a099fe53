"""Ranks that call one collective in different ways: by other names, with other roots, or with other data. Pure."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbg_client.views.tree import file_line, own_frames
from dbg_client.why.collective_matching import PendingCollective
from dbg_client.why.condition import main_wait
from dbg_client.why.lines import last_call
from dbg_client.why.verdict import Certainty, show_bytes
from dbg_wire.errors import printable
from dbg_wire.records.evidence import ThreadWait
from dbg_wire.records.ranks import Place

if TYPE_CHECKING:
    from dbg_client.why.scene import Scene

MAX_SIDE = 120
"""Characters of what one side calls."""

_ALIKE = frozenset(
    {"allreduce", "broadcast", "reduce", "allgather", "allgatherbase", "reducescatter", "bcast"}
    | {"allgatherintotensor", "allgathersingle", "reducescattertensor", "reducescattersingle"}
)
"""Collectives whose inputs have one size and type in all ranks; those of others may differ."""


class Difference(enum.Enum):
    """In what the calls of one collective differ."""

    NAME = enum.auto()
    ROOT = enum.auto()
    DATA = enum.auto()


def difference_of(standing: PendingCollective) -> Difference | None:
    """Return in what ranks call a collective differently, the gravest first; None if all call it alike."""
    if standing.has_peer:
        return None
    if len({call.name for call in standing.all_calls.values() if call.name}) > 1:
        return Difference.NAME
    # Who has not come is waited for in any case; and without numbers, the others may be in two calls.
    if len(standing.roots) > 1 and not standing.missing:
        return Difference.ROOT
    # A library may let ranks finish that have passed less data than others, which then wait for the rest.
    payloads = {_payload(standing, number) for number in standing.all_calls} - {("", "")}
    return Difference.DATA if len(payloads) > 1 else None


def is_certain(standing: PendingCollective) -> bool:
    """Return whether ranks call it by different names and their library records name and number together.

    Its age makes no difference then. A rank's count and its stack are read one after the other, and may not agree.
    """
    is_recorded = all(call.timeout is not None and call.sequence is not None for call in standing.all_calls.values())
    return is_recorded and difference_of(standing) is Difference.NAME


def certainty_of_difference(standing: PendingCollective) -> Certainty:
    """Return how it is known that calls differ."""
    return Certainty.SURE if is_certain(standing) or standing.is_recorded else Certainty.LIKELY


def sides(standing: PendingCollective) -> list[tuple[str, list[int]]]:
    """Return the different calls of one collective with their ranks, the usual one first."""
    difference = difference_of(standing)
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, call in sorted(standing.all_calls.items()):
        what = call.name or "another collective"
        if difference is Difference.ROOT:
            what = f"root {call.root}" if call.root is not None else ""
        elif difference is Difference.DATA:
            size = [show_bytes(call.size)] if call.size is not None else []
            what = " ".join(filter(None, [", ".join(filter(None, [call.types[:60], *size])), call.shapes[:80]]))
            what = what if _payload(standing, number) != ("", "") else ""
        if what:
            found[printable(what, MAX_SIDE)].append(number)
    return sorted(found.items(), key=lambda side: (-len(side[1]), side[1][0]))


def is_parting(called: Sequence[tuple[str, list[int]]]) -> bool:
    """Return whether as many ranks do one thing as the other, so that nobody is to blame."""
    return len(called[0][1]) == len(called[1][1])


def _payload(standing: PendingCollective, number: int) -> tuple[str, int | str]:
    """Return what must be equal in all ranks: the types, and the size or else the shapes; nothing for a free one."""
    call = standing.all_calls[number]
    if call.name.lower().replace("_", "").strip() not in _ALIKE:
        return "", ""
    return call.types, call.size if call.size is not None else call.shapes


def went_on(scene: Scene, standing: PendingCollective, usual: str) -> bool:
    """Tell whether all ranks have finished the usual call just before, which most of them repeat."""
    if standing.sequence is None or len(sides(standing)) != 2:
        return False
    before = [last_call(scene.matched.roster[number], standing.group) for number in standing.calls]
    return all(call is not None and call.name == usual and call.sequence == standing.sequence - 1 for call in before)


def place_of_call(scene: Scene, standing: PendingCollective, numbers: Sequence[int]) -> str:
    """Return `` (evaluate train.py:11)``, where most of these ranks have called it; empty if they don't tell."""
    places = Counter(place for n in numbers if (place := _called_at(scene, standing, n)) is not None)
    if not places:
        return ""
    (place, _), *_ = places.most_common(1)
    return f" ({printable(place.function, 40)} {file_line(place)})"


def _called_at(scene: Scene, standing: PendingCollective, number: int) -> Place | None:
    place, one = standing.all_calls[number].place, scene.matched.roster[number]
    if place is not None or number not in standing.calls or not one.is_in_collective:
        return place
    return next(reversed(own_frames(one.answer.frames)), None)


def loop_left(scene: Scene, numbers: Sequence[int], others: Sequence[int]) -> str:
    """Return ``train.py:12``, the loop behind which all these ranks are while another rank is in it; or nothing."""
    roster = scene.matched.roster
    stayed = next((wait for number in others if (wait := main_wait(roster[number])) is not None and wait.loops), None)
    if stayed is None:
        return ""
    left = {_left(wait, stayed) if (wait := main_wait(roster[number])) is not None else "" for number in numbers}
    return left.pop() if len(left) == 1 else ""


def _left(gone: ThreadWait, stayed: ThreadWait) -> str:
    """Return the outermost loop that one thread is behind, and in which another one is that runs the same code."""
    for at, (mine, other) in enumerate(zip(gone.frames, stayed.frames, strict=False)):
        if (mine.file, mine.function) != (other.file, other.function):
            return ""
        if mine.line != other.line:
            lines = [loop.first for loop in stayed.loops if loop.frame == at and loop.last < mine.line]
            return file_line(mine.replace(line=min(lines))) if lines else ""
    return ""
