"""What is said of ranks that are missing: in the head of an answer, below a list, and in JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.core.roll_call import Missing, MissingRanks, RollCall
from dbg_client.views.ages import show_duration
from dbg_client.views.naming import clip
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks

MAX_NAMES = 40
"""Columns for the numbers of ranks that are missing for one reason; JSON has them all."""


@dataclass(frozen=True, slots=True)
class MissingInAnswer:
    """What the head of an answer says of ranks that were not asked since they are missing.

    ``exited`` counts those that have exited, ``how`` says how, and ``connected`` who never came. ``documents`` are
    for JSON.
    """

    exited: int = 0
    how: str = ""
    connected: str = ""
    documents: tuple[dict[str, object], ...] = ()


NOBODY_MISSING = MissingInAnswer()


def missing_in_answer(calls: Sequence[RollCall], now: float, *, several_jobs: bool) -> MissingInAnswer:
    """Return what an answer says of the ranks that are missing; ``now`` is wall-clock seconds."""
    exited = [missing for call in calls for missing in call.exited]
    return MissingInAnswer(
        exited=sum(len(missing.numbers) for missing in exited),
        how=", ".join(_how(missing, now, several_jobs=several_jobs) for missing in exited),
        connected="; ".join(_connected(call, several_jobs=several_jobs) for call in calls if call.absent),
        documents=tuple(missing_documents(calls)),
    )


def missing_documents(calls: Sequence[RollCall]) -> list[dict[str, object]]:
    """Return what becomes the JSON of ranks that are missing."""
    return [
        {
            "job": missing.job,
            "ranks": format_ranks(missing.numbers),
            "state": missing.state.value,
            "text": missing.text,
            "since": missing.since,
        }
        for call in calls
        for missing in call.missing
    ]


def absent_only(calls: Sequence[RollCall]) -> list[RollCall]:
    """Return the same of ranks that never came alone, for a list that has the exited ones as rows."""
    absent = []
    for call in calls:
        missing = tuple(one for one in call.missing if one.state is Missing.ABSENT)
        if missing:
            absent.append(RollCall(job=call.job, world=call.world, connected=call.connected, missing=missing))
    return absent


def absent_rows(calls: Sequence[RollCall], *, several_jobs: bool) -> str:
    """Return a line for each run of which ranks never connected, to stand below a list."""
    return "".join(
        f"{_names(call.absent, call.job if several_jobs else None)} never connected\n" for call in calls if call.absent
    )


def _how(missing: MissingRanks, now: float, *, several_jobs: bool) -> str:
    many = len(missing.numbers) > 1
    names = _names(missing.numbers, missing.job if several_jobs else None)
    verb = ("were " if many else "was ") if missing.text.startswith("killed") else ""
    ago = f"{'the first ' if many else ''}{show_duration(now - (missing.since or now))} ago"
    comma = "," if many or missing.text[-1:].isdigit() or " from " in missing.text else ""
    return f"rank{'s' if many else ''} {names} {verb}{missing.text}{comma} {ago}"


def _connected(call: RollCall, *, several_jobs: bool) -> str:
    names = _names(call.absent, None)
    whose = f" of {printable(call.job)}" if several_jobs else ""
    if call.world is None or call.connected + len(call.absent) != call.world:
        # Other ranks of the run, which were not asked for, have not come either.
        return f"rank{'s' if len(call.absent) > 1 else ''} {names}{whose} never came"
    return f"{call.connected} of {call.world} ranks{whose} have connected: {names} never came"


def _names(numbers: Sequence[int], job: str | None) -> str:
    names = clip(format_ranks(numbers), MAX_NAMES)
    return f"{printable(job)}/{names}" if job is not None else names
