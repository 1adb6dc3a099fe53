"""The settings of a rank: from arguments, ``DBG_*`` variables and defaults, in this order.

A value that can't be used causes a warning, and the default is used: a mistyped argument must not end a training job.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dbg_dial.home import BROKER, EXEC
from dbg_wire.errors import printable
from dbg_wire.limits import MAX_ITEMS
from dbg_wire.records.ranks import ENGINES, Coordinate
from dbg_wire.records.record import clamp

MAX_AXES = 8
"""Maximum number of axes of a mesh; the largest trainings use five or six."""

MAX_AXIS_NAME = 32
"""Maximum number of characters of an axis's name."""

Mesh = tuple[tuple[str, int], ...]

CONNECT_SECONDS = 10.0
"""Maximum wait for a broker in seconds; a process waits this long only once. A broker that starts together with the job
is ready within that time."""

CRASH_LEASE_SECONDS = 600.0
"""Time in seconds that a crashed rank is kept if no terminal attaches: long enough for a user to wake up and attach. If
nobody attaches, the GPUs idle for ten minutes, not for the whole night."""

HOLD_GRACE_SECONDS = 60.0
"""Time in seconds that a held rank waits for a chosen rank to arrive. Even if the ranks evaluate a model before the
line of the stop, a slow rank arrives there within a minute of the others."""

MAX_COLLECTIVE_SECONDS = 1e7
"""Maximum timeout of collectives in seconds: four months. With larger values, libraries that count in nanoseconds could
overflow."""

FORBIDDEN = "commands are forbidden on this rank (DBG_EXEC=0, or install(exec=False))"
"""Answer of a rank and its guard to a request for a command while :attr:`Settings.exec` is false."""

ON_MISSING = ("go-on", "wait", "raise")
"""Reactions of a stop if no broker answers in time; the first is the default."""


def as_mesh(value: object) -> Mesh:
    """Convert a mapping, or text such as ``pp=2,dp=4``, to a mesh; raise ValueError or TypeError for anything else.

    The order matters: ranks run along the last axis first, as in ``torch.distributed.init_device_mesh``.
    """
    if isinstance(value, str):
        pieces = [piece.partition("=") for piece in value.split(",")]
        if len({name.strip() for name, _, _ in pieces}) < len(pieces):
            raise ValueError("an axis is named twice")
        value = {name.strip(): int(size) for name, _, size in pieces}
    if not isinstance(value, Mapping):
        raise TypeError
    mesh = tuple((str(name), int(size)) for name, size in value.items())
    for name, size in mesh:
        if not (name.isidentifier() and name.isascii() and len(name) <= MAX_AXIS_NAME and size >= 1):
            raise ValueError
    if not 1 <= len(mesh) <= MAX_AXES:
        raise ValueError
    return mesh


def coordinates(mesh: Mesh, rank: int) -> tuple[Coordinate, ...]:
    """Return a rank's coordinates, one per axis, or an empty tuple if the mesh has no such rank."""
    if not mesh or not 0 <= rank < math.prod(size for _, size in mesh):
        return ()
    found = []
    for name, size in reversed(mesh):
        rank, index = divmod(rank, size)
        found.append(clamp(Coordinate, axis=name, index=index))
    return tuple(reversed(found))


def _as_text(value: object) -> str | None:
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError
    return seconds


def _as_timeout(value: object) -> float | None:
    """Return seconds, or None for 0, which leaves timeouts unchanged."""
    seconds = _as_seconds(value)
    if seconds > MAX_COLLECTIVE_SECONDS:
        raise ValueError
    return seconds or None


def _as_policy(value: object) -> str:
    if not isinstance(value, str) or value not in ON_MISSING:
        raise ValueError
    return value


def _as_ranks(value: object) -> tuple[int, ...] | None:
    from dbg_wire.rank_set import parse_ranks

    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, int):
        numbers = [value]
    elif isinstance(value, str):
        numbers = list(parse_ranks(value))
    elif isinstance(value, Iterable):
        numbers = [operator.index(number) for number in value]
    else:
        raise TypeError
    if not numbers or min(numbers) < 0 or len(numbers) > MAX_ITEMS:
        raise ValueError
    return tuple(sorted(set(numbers)))


def _as_engine(value: object) -> str | None:
    if not isinstance(value, str) or value not in ENGINES:
        raise ValueError
    return value


_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _as_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise TypeError
    try:
        return _FLAGS[value.lower()]
    except KeyError:
        raise ValueError from None


def is_off(text: str) -> bool:
    """Return True if a variable's value means False, such as ``0`` or ``off``."""
    return _FLAGS.get(text.lower()) is False


def _setting(default: object, convert: Callable[[object], object], expected: str, variable: str = "") -> Any:
    """Return a field with its conversion, its variable, and a description of its values for warnings.

    The variable is ``DBG_`` and the field's name, unless ``variable`` names another.
    """
    return field(default=default, metadata={"convert": convert, "expected": expected, "variable": variable})


_FLAG, _SECONDS = "True or False", "a number of seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one call of the agent; if ``broker`` is None, DBG_BROKER or broker.json names the broker."""

    broker: str | None = _setting(None, _as_text, "an address such as login1:6900")
    connect_timeout: float = _setting(CONNECT_SECONDS, _as_seconds, _SECONDS)
    on_missing: str = _setting(ON_MISSING[0], _as_policy, " or ".join(map(repr, ON_MISSING)))
    engine: str | None = _setting(None, _as_engine, " or ".join(map(repr, ENGINES)))
    rc: bool = _setting(False, _as_flag, _FLAG, "DBG_PDBRC")
    classic: bool = _setting(True, _as_flag, _FLAG)
    guard: bool = _setting(True, _as_flag, _FLAG)
    exec: bool = _setting(True, _as_flag, _FLAG)
    ranks: tuple[int, ...] | None = _setting(None, _as_ranks, "a rank, a list of ranks, or a set such as '0-3,5'")
    hold: bool = _setting(True, _as_flag, _FLAG)
    hold_grace: float = _setting(HOLD_GRACE_SECONDS, _as_seconds, _SECONDS)
    lease: float | None = _setting(None, _as_seconds, _SECONDS)
    post_mortem: bool = _setting(False, _as_flag, _FLAG)
    mesh: tuple[tuple[str, int], ...] = _setting((), as_mesh, "sizes by axis, such as {'pp': 2, 'dp': 4}")
    collective_timeout: float | None = _setting(None, _as_timeout, "a number of seconds up to 10 million")


def read_settings(
    function: str,
    arguments: Mapping[str, object],
    unexpected: tuple[object, ...],
    environ: Mapping[str, str],
    warn: Callable[[str], None],
) -> Settings:
    """Return the settings of one call; call ``warn`` with a sentence for each value that can't be used."""
    if unexpected:
        warn(f"{function}() accepts only keyword arguments; {len(unexpected)} positional ignored")
    known = fields(Settings)
    for name in arguments:
        if name not in {one.name for one in known}:
            warn(f"{function}() has no argument {printable(name)!r}; ignored")
    values: dict[str, Any] = {}
    for one in known:
        variable = one.metadata["variable"] or f"DBG_{one.name.upper()}"
        # DBG_BROKER is read later by the rules of dbg_dial.endpoint, which also handle its fingerprint.
        from_environ = environ.get(variable) if variable != BROKER else None
        given = {f"{function}({one.name}=…)": arguments.get(one.name), variable: from_environ}
        values[one.name], wrong = _first_right(given, one.default, one.metadata["convert"])
        for problem in wrong:
            warn(f"{problem}, not {one.metadata['expected']}; using {values[one.name]!r}")
    # The variable forbids commands regardless of the argument.
    values["exec"] = values["exec"] and not is_off(environ.get(EXEC, ""))
    return Settings(**values)


def _first_right(
    given: Mapping[str, object], default: object, convert: Callable[[object], object]
) -> tuple[object, list[str]]:
    """Return the first usable value, or the default, and a description of each unusable value before it."""
    wrong: list[str] = []
    for source, value in given.items():
        if value is None or (isinstance(value, str) and not value):
            continue
        try:
            return convert(value), wrong
        except Exception:
            # Methods of the program's values may raise any exception.
            wrong.append(f"{source} is {printable(_shown(value))}")
    return default, wrong


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"a {type(value).__name__} whose repr raises {type(error).__name__}"
