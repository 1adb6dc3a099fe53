"""The options that a run hands to a broker of its own, and what to say where a broker serves already. Pure."""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dbg_broker.run.settings import Wishes
from dbg_broker.settings import parse_allowed, parse_command, parse_max_lease, parse_record
from dbg_wire.errors import printable

MAX_SHOWN = 300
"""Characters of options in a sentence."""

_HIDDEN = "--event-directory"


class Option(NamedTuple):
    """An option of ``serve`` and its value, which is empty for an option without one."""

    name: str
    value: str = ""


Options = tuple[Option, ...]


class StartedBy(NamedTuple):
    """The broker that a run has started: the host and process that it is, and its options."""

    host: str
    pid: int
    options: Options


def broker_options(wishes: Wishes, directory: str) -> Options:
    """Return what to hand to a broker of the run, which does not run in ``directory``. Raise BadInput."""
    record = parse_record(directory, wishes.record, max_bytes=wishes.record_max, records_input=wishes.record_input)
    parse_allowed(wishes.allow)
    parse_max_lease(wishes.max_lease)
    found = [Option("--allow", network) for network in wishes.allow]
    if wishes.audit_input:
        found.append(Option("--audit-input"))
    if record is not None:
        found.append(Option("--record", record.directory))
    if wishes.record_input:
        found.append(Option("--record-input"))
    if wishes.record_max is not None:
        found.append(Option("--record-max", wishes.record_max))
    if wishes.on_event is not None:
        found += [Option("--on-event", _command(wishes.on_event, directory)), Option(_HIDDEN, directory)]
    if wishes.max_lease is not None:
        found.append(Option("--max-lease", wishes.max_lease))
    return tuple(found)


def words_of(options: Options) -> Iterator[str]:
    """Return the options as words of a command line."""
    for option in options:
        # A value may begin with a hyphen.
        yield f"{option.name}={option.value}" if option.value else option.name


def notes_on(wanted: Options, has: Options, url: str, pid: int | None = None) -> Iterator[str]:
    """Return what to say of a broker that serves already with the options ``has``, as sentences.

    ``pid`` is that of its process, None if it is on another host.
    """
    missing, more = _names(wanted, has), _shown(option for option in has if option not in wanted)
    where = f"the broker at {printable(url)}"
    if missing:
        verb = "changes" if len(missing) == 1 else "change"
        yield (
            f"{where} runs already, and {' and '.join(missing)} {verb} nothing there; stop it"
            f"{f' by `kill {pid}`' if pid is not None else ''}, and the run starts one of its own with what you gave"
        )
    elif more:
        yield f"{where} was started by an earlier run, and still has its {more}"


def format_started(started: StartedBy) -> str:
    """Return the text of the file that tells later runs of a broker."""
    return json.dumps({"schema": 1, **started._asdict()}) + "\n"


def options_of(text: str | None, host: str, pid: int) -> Options:
    """Return the options of the broker that is this process, none if the text tells of another one or can't be read."""
    try:
        document: Mapping[str, Any] = json.loads(text or "")
        if (document["host"], document["pid"]) != (host, pid):
            return ()
        return tuple(Option(str(name), str(value)) for name, value in document["options"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()


def _command(text: str, directory: str) -> str:
    program, *arguments = parse_command(text)
    # A name without a slash is found in $PATH.
    path = posixpath.join(directory, program) if "/" in program else program
    return shlex.join([path, *arguments])


def _names(wanted: Options, has: Options) -> list[str]:
    return list(dict.fromkeys(option.name for option in wanted if option not in has and option.name != _HIDDEN))


def _shown(options: Iterable[Option]) -> str:
    shown = [
        f"{one.name} {shlex.quote(one.value)}" if one.value else one.name for one in options if one.name != _HIDDEN
    ]
    return printable(" ".join(shown), MAX_SHOWN)
