"""The settings of ``run``, and what ``--again`` makes of them. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from dbg_broker.settings import parse_listen
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.stop_points import MAX_STOPS, StopAt, StopIn, parse_stop_at, parse_stop_in
from dbg_wire.tables.engines import ENGINES

LONGEST_SECONDS = 10_000_000.0
"""The most seconds that a collective, or a rank that does not move, may be given: four months."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of a run as typed, None or empty if not given.

    ``pty`` is :data:`.job_terminal.YES` or :data:`.job_terminal.NO`, None if neither was typed.
    These are what ``--again`` repeats.
    """

    stop_at: tuple[str, ...] = ()
    stop_in: tuple[str, ...] = ()
    ranks: str | None = None
    engine: str | None = None
    post_mortem: bool = False
    collective_timeout: str | None = None
    commands: str | None = None
    rank_filter: str | None = None
    listen: str | None = None
    output: str | None = None
    pty: str | None = None
    hang_after: str | None = None
    allow: tuple[str, ...] = ()
    audit_input: bool = False
    record: str | None = None
    record_input: bool = False
    record_max: str | None = None
    on_event: str | None = None
    max_lease: str | None = None

    def with_changes(self, given: Wishes) -> Wishes:
        """Return these wishes, replaced by those that are given now; a new stop replaces all stops."""
        changed = {field.name: getattr(given, field.name) for field in fields(self) if getattr(given, field.name)}
        if given.stop_at or given.stop_in:
            changed |= {"stop_at": given.stop_at, "stop_in": given.stop_in}
        return replace(self, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one ``run``."""

    home: str
    directory: str
    wishes: Wishes
    command: tuple[str, ...] = ()
    again: bool = False
    tmux: bool = False


def check(settings: RunSettings) -> RunSettings:
    """Return the settings, their paths absolute; raise BadInput for what can't be used, before anything is started."""
    if settings.again and settings.command:
        raise BadInput(
            f"--again repeats the last command, and '{printable(settings.command[0])}' is another",
            "leave one of them out",
        )
    if not settings.again and not settings.command:
        raise BadInput("there is no command to run", "write it behind `--`, such as dbg-broker run -- python train.py")
    return replace(settings, wishes=_check_wishes(settings.wishes, settings.directory))


def _check_wishes(wishes: Wishes, directory: str) -> Wishes:
    for text in wishes.stop_at:
        parse_stop_at(text)
    for text in wishes.stop_in:
        parse_stop_in(text)
    if len(wishes.stop_at) + len(wishes.stop_in) > MAX_STOPS:
        raise BadInput(f"{len(wishes.stop_at) + len(wishes.stop_in)} stops are named", f"name {MAX_STOPS} at most")
    if wishes.ranks is not None:
        from dbg_wire.targets.rank_set import parse_ranks  # loaded while the job waits to be started

        parse_ranks(wishes.ranks)
    if wishes.engine not in (None, *ENGINES):
        raise BadInput(f"--engine {printable(wishes.engine or '')!r} is no debugger of ours", "take pudb or pdb")
    _check_times(wishes)
    if wishes.rank_filter is not None:
        _check_filter(wishes.rank_filter)
    if wishes.listen is not None:
        parse_listen(wishes.listen)
    return replace(wishes, commands=_absolute(wishes.commands, directory), output=_absolute(wishes.output, directory))


def _absolute(path: str | None, directory: str) -> str | None:
    return None if path is None else posixpath.normpath(posixpath.join(directory, path))


def _check_times(wishes: Wishes) -> None:
    timeout, hang = wishes.collective_timeout, wishes.hang_after
    if not _is_time(timeout):
        raise BadInput(
            f"--collective-timeout {printable(timeout or '')!r} is not a number of seconds",
            f"give one up to {LONGEST_SECONDS:.0f}",
        )
    if not _is_time(hang):
        raise BadInput(
            f"--hang-after {printable(hang or '')!r} is not a number of seconds",
            f"give one up to {LONGEST_SECONDS:.0f}",
        )


def _is_time(text: str | None) -> bool:
    try:
        return text is None or 0 <= float(text) <= LONGEST_SECONDS
    except ValueError:
        return False


def _check_filter(text: str) -> None:
    from dbg_wire.targets.selection import parse_target

    for term in parse_target(text).include:
        if term.job is not None:
            raise BadInput(
                f"--rank-filter {printable(text)!r} names a job", "name ranks of this one, such as 0-3 or gpu1:*"
            )


def command_of(words: Sequence[str], behind: Sequence[str] | None) -> tuple[str, ...]:
    """Return the command: ``words`` that are no options, and those behind the first ``--`` (None: there is none).

    A ``--`` in the middle of the command is the command's own.
    """
    if behind is None:
        return tuple(words)
    return (*words, "--", *behind) if words else tuple(behind)


def typed_stops(wishes: Wishes) -> list[StopAt | StopIn]:
    """Return the stops that were typed. Raise BadInput."""
    return [*map(parse_stop_at, wishes.stop_at), *map(parse_stop_in, wishes.stop_in)]
