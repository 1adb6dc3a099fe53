"""The settings of ``run``, and what ``--again`` makes of them. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from typing import NamedTuple

from dbg_broker.settings import parse_command, parse_listen
from dbg_wire.errors import BadInput, NeedsExtra, printable
from dbg_wire.messages.run_terminal import ON_HANG
from dbg_wire.records.stop_points import MAX_STOPS, StopAt, StopIn, parse_stop_at, parse_stop_in
from dbg_wire.tables.engines import ENGINES

LONGEST_SECONDS = 10_000_000.0
"""The most seconds that a collective, or a rank that does not move, may be given: four months."""


EVENT_DIRECTORY = "--event-directory"
"""The option of ``serve`` that says where the command of ``--on-event`` runs; only a run gives it."""


class Option(NamedTuple):
    """An option of ``serve`` and its value, None for an option without one."""

    name: str
    value: str | None = None


Options = tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run as typed, None or empty if not given; these are what ``--again`` repeats.

    ``pty`` is None if neither ``--pty`` nor ``--no-pty`` was typed. ``broker`` are options of ``serve``, for a broker
    of its own.
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
    pty: bool | None = None
    hang_after: str | None = None
    on_hang: str | None = None
    broker: Options = ()

    def with_changes(self, given: RunOptions) -> RunOptions:
        """Return these options, replaced by those that are given now; a new stop replaces all stops."""
        names = [field.name for field in fields(self) if getattr(given, field.name) != field.default]
        changed = {name: getattr(given, name) for name in names}
        if given.stop_at or given.stop_in:
            changed |= {"stop_at": given.stop_at, "stop_in": given.stop_in}
        replaced = {option.name for option in given.broker}
        changed["broker"] = (*(one for one in self.broker if one.name not in replaced), *given.broker)
        return replace(self, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one ``run``."""

    home: str
    directory: str
    options: RunOptions
    command: tuple[str, ...] = ()
    again: bool = False
    tmux: bool = False
    web: bool = False


def check(settings: RunSettings) -> RunSettings:
    """Return the settings, their paths absolute; raise BadInput for what can't be used, before anything is started."""
    if settings.again and settings.command:
        raise BadInput(
            f"--again repeats the last command, and '{printable(settings.command[0])}' is another",
            "leave one of them out",
        )
    if not settings.again and not settings.command:
        raise BadInput("there is no command to run", "write it behind `--`, such as dbg-broker run -- python train.py")
    if settings.web and find_spec("aiohttp") is None:
        raise NeedsExtra("--web", "aiohttp", "web")
    if not settings.again:
        check_on_hang(settings.options)
    return replace(settings, options=_check(settings.options, settings.directory))


def _check(options: RunOptions, directory: str) -> RunOptions:
    for text in options.stop_at:
        parse_stop_at(text)
    for text in options.stop_in:
        parse_stop_in(text)
    if len(options.stop_at) + len(options.stop_in) > MAX_STOPS:
        raise BadInput(f"{len(options.stop_at) + len(options.stop_in)} stops are named", f"name {MAX_STOPS} at most")
    if options.ranks is not None:
        from dbg_wire.targets.rank_set import parse_ranks  # loaded while the job waits to be started

        parse_ranks(options.ranks)
    if options.engine not in (None, *ENGINES):
        raise BadInput(f"--engine {printable(options.engine or '')!r} is no debugger of ours", "take pudb or pdb")
    _check_times(options)
    if options.on_hang not in (None, *ON_HANG):
        raise BadInput(f"--on-hang {printable(options.on_hang or '')!r} is not known", f"take {' or '.join(ON_HANG)}")
    if options.rank_filter is not None:
        _check_filter(options.rank_filter)
    if options.listen is not None:
        parse_listen(options.listen)
    return replace(
        options,
        commands=None if options.commands is None else _absolute(options.commands, directory),
        output=None if options.output is None else _absolute(options.output, directory),
        broker=_from_anywhere(options.broker, directory),
    )


def _absolute(path: str, directory: str) -> str:
    return posixpath.normpath(posixpath.join(directory, path))


def _from_anywhere(options: Options, directory: str) -> Options:
    """Return options such that they mean the same to a broker, which runs in another directory."""
    found = [
        Option(name, value if value is None or name != "--on-event" else _absolute_command(value, directory))
        for name, value in options
    ]
    if any(option.name == "--on-event" for option in options):
        found.append(Option(EVENT_DIRECTORY, directory))
    return tuple(found)


def _absolute_command(text: str, directory: str) -> str:
    program, *arguments = parse_command(text)
    # A name without a slash is found in $PATH.
    return shlex.join([posixpath.join(directory, program) if "/" in program else program, *arguments])


def _check_times(options: RunOptions) -> None:
    for name, text in (("--collective-timeout", options.collective_timeout), ("--hang-after", options.hang_after)):
        if not _is_time(text):
            raise BadInput(
                f"{name} {printable(text or '')!r} is not a number of seconds", f"give one up to {LONGEST_SECONDS:.0f}"
            )


def check_on_hang(options: RunOptions) -> None:
    """Raise BadInput if a hang is to have consequences, and nothing says what a hang is."""
    if options.on_hang is not None and options.hang_after is None:
        raise BadInput("--on-hang needs to know what a hang is", "add --hang-after S, such as --hang-after 300")


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


def typed_stops(options: RunOptions) -> list[StopAt | StopIn]:
    """Return the stops that were typed. Raise BadInput."""
    return [*map(parse_stop_at, options.stop_at), *map(parse_stop_in, options.stop_in)]
