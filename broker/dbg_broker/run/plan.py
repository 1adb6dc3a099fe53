"""What one run is to do: what was typed now, and what is remembered of the last run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbg_broker.run.remembered import (
    KeptStop,
    NothingToRepeat,
    Remembered,
    keep_breakpoints,
    keep_texts,
    moved,
    refuse_short,
    typed_stops,
)
from dbg_broker.run.settings import RunSettings, Wishes
from dbg_wire.errors import printable
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.records.stop_points import StopAt, StopIn, parse_stop_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run does.

    ``texts`` are the texts of the lines of ``wishes.stop_at`` at the job's start: the files may be edited before its
    end. ``breakpoints`` are those of earlier runs that are set in this one, too. ``prefer`` is the rank followed last
    time, ``notes`` are what the user should know.
    """

    directory: str
    command: tuple[str, ...]
    wishes: Wishes
    texts: tuple[str | None, ...] = ()
    breakpoints: tuple[KeptStop, ...] = ()
    prefer: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def stops(self) -> list[StopAt | StopIn]:
        """Return all stops of the job, none twice."""
        typed = typed_stops(self.wishes)
        places = {(stop.file, stop.line) for stop in typed if isinstance(stop, StopAt)}
        return [*typed, *(kept.stop for kept in self.breakpoints if (kept.stop.file, kept.stop.line) not in places)]

    def to_remember(self, breakpoints: Sequence[Breakpoint], rank: int | None) -> Remembered:
        """Return what to remember of this run, given what was set in it and which rank was followed."""
        return Remembered(
            command=self.command,
            wishes=self.wishes,
            texts=self.texts,
            breakpoints=keep_breakpoints(breakpoints, self.breakpoints),
            rank=self.prefer if rank is None else rank,
        )


def make_plan(settings: RunSettings, last: Remembered | None) -> Plan:
    """Return what to do. Raise NothingToRepeat, and BadInput for a line that a file does not have."""
    for stop in typed_stops(settings.wishes):
        if isinstance(stop, StopAt):
            refuse_short(stop, settings.directory)
    if settings.again:
        if last is None:
            raise NothingToRepeat(settings.directory)
        return _again(settings, last)
    is_same = last is not None and (last.command, last.wishes) == (settings.command, settings.wishes)
    return Plan(
        directory=settings.directory,
        command=settings.command,
        wishes=settings.wishes,
        texts=keep_texts(settings.wishes, settings.directory),
        prefer=last.rank if last is not None and is_same else None,
    )


def _again(settings: RunSettings, last: Remembered) -> Plan:
    given, directory = settings.wishes, settings.directory
    has_new_stops = bool(given.stop_at or given.stop_in)
    former = [
        KeptStop(stop=parse_stop_at(typed), text=text)
        for typed, text in zip(last.wishes.stop_at, last.texts, strict=True)
    ]
    typed = [moved(kept, directory) for kept in former]
    breakpoints = [moved(kept, directory) for kept in last.breakpoints]
    notes = [
        f"{printable(now.stop.file)}:{before.stop.line} is line {now.stop.line} now"
        for before, now in zip([*former, *last.breakpoints], [*typed, *breakpoints], strict=True)
        if before.stop.line != now.stop.line
    ]
    wishes = replace(last.wishes, stop_at=tuple(_typed(kept.stop) for kept in typed)).with_changes(given)
    plan = Plan(
        directory=directory,
        command=last.command,
        wishes=wishes,
        texts=keep_texts(wishes, directory) if has_new_stops else tuple(kept.text for kept in typed),
        breakpoints=() if has_new_stops else tuple(breakpoints),
        prefer=last.rank,
        notes=() if has_new_stops else tuple(notes),
    )
    return replace(plan, notes=(*plan.notes, _summary(plan)))


def _summary(plan: Plan) -> str:
    """Return the command that does the same, as a person can read, copy and change it."""
    stops = [word for stop in plan.stops for word in str(stop).split(" ", 1)]
    shown = shlex.join([*stops, "--", *plan.command])
    return f"again: dbg-broker run {printable(shown, 500)}"


def _typed(stop: StopAt) -> str:
    return str(stop).partition(" ")[2]
