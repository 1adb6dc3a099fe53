"""What a rank is told: arguments, ``DBG_*`` variables, ``broker.json``, defaults, in this order.

Whatever can't be used is a warning and the default is taken: a mistyped argument must not end a training job.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from dbg_wire.endpoint import Reach, Rendezvous, parse_rendezvous, resolve
from dbg_wire.errors import BadInput, BadSecretFile, NoBroker, printable
from dbg_wire.home import check_private, home_directory

CONNECT_SECONDS = 10.0
"""Seconds waited for a broker, once per process: a broker that starts beside the job is up by then."""

MAX_SECRET_BYTES = 64 * 1024
"""Bytes read of a token or rendezvous file; a real one has below 1 KiB."""

ON_MISSING = ("go-on", "wait", "raise")
"""What a stop does if no broker answers in time; the first is the default."""

ENGINES = ("pudb", "pdb")
"""Debuggers that a stop can open; the first is the default."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Hold what a call asked for; ``broker`` is None for whatever DBG_BROKER or broker.json say."""

    broker: str | None = None
    connect_timeout: float = CONNECT_SECONDS
    on_missing: str = ON_MISSING[0]
    breakpoint: bool = True
    engine: str | None = None
    rc: bool = False
    classic: bool = False


def read_settings(
    function: str,
    arguments: Mapping[str, object],
    unexpected: tuple[object, ...],
    environ: Mapping[str, str],
    warn: Callable[[str], None],
) -> Settings:
    """Return the settings of one call; tell ``warn`` what could not be used, in one sentence each."""
    if unexpected:
        warn(f"{function}() takes keyword arguments only; {len(unexpected)} positional ignored")
    known = {"broker", "connect_timeout", "on_missing", "breakpoint", "engine", "rc", "classic"}
    for name in arguments:
        if name not in known:
            warn(f"{function}() has no argument {printable(name)!r}; ignored")
    read = _Reader(function, arguments, environ, warn)
    return Settings(
        broker=read.one("broker", None, _as_text, "an address such as login1:6900"),
        connect_timeout=read.one("connect_timeout", CONNECT_SECONDS, _as_seconds, "a number of seconds"),
        on_missing=read.one("on_missing", ON_MISSING[0], _as_policy, " or ".join(map(repr, ON_MISSING))),
        breakpoint=read.one("breakpoint", True, _as_flag, "True or False"),
        engine=read.one("engine", None, _as_engine, " or ".join(map(repr, ENGINES))),
        rc=read.one("rc", False, _as_flag, "True or False", variable="DBG_PDBRC"),
        classic=read.one("classic", False, _as_flag, "True or False"),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    function: str
    arguments: Mapping[str, object]
    environ: Mapping[str, str]
    warn: Callable[[str], None]

    def one(
        self, name: str, default: _T, convert: Callable[[object], _T], wanted: str, variable: str | None = None
    ) -> _T:
        variable = variable or f"DBG_{name.upper()}"
        # The broker's variable is left to the endpoint's own rules, which also know the fingerprint behind it.
        from_environ = self.environ.get(variable) if name != "broker" else None
        for value, source in ((self.arguments.get(name), f"{self.function}({name}=…)"), (from_environ, variable)):
            if value is None or (isinstance(value, str) and not value):
                continue
            try:
                return convert(value)
            except Exception:
                # Whatever the value's own methods raise: it is not one of ours.
                self.warn(f"{source} is {printable(_shown(value))}, not {wanted}; taking {default!r}")
        return default


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"a {type(value).__name__} whose repr raises {type(error).__name__}"


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


def _as_policy(value: object) -> str:
    if not isinstance(value, str) or value not in ON_MISSING:
        raise ValueError
    return value


def _as_engine(value: object) -> str | None:
    if not isinstance(value, str) or value not in ENGINES:
        raise ValueError
    return value


def _as_flag(value: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise TypeError
    try:
        return words[value.lower()]
    except KeyError:
        raise ValueError from None


def read_secret(path: str) -> str:
    """Return the text of a token or rendezvous file that nobody else could have read or made.

    Raise BadSecretFile if others can, and OSError if there is none.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs a rank 5 ms that open() does not
        status = os.fstat(file.fileno())
        check_private(status.st_mode, status.st_uid, os.getuid(), path)
        return file.read(MAX_SECRET_BYTES).decode("utf-8")


def read_rendezvous(environ: Mapping[str, str]) -> Rendezvous | None:
    """Return what this user's broker.json says now, or None if there is none.

    Raise BadInput if it is there and can't be trusted or read.
    """
    path = os.path.join(home_directory(environ), "broker.json")  # noqa: PTH118
    try:
        return parse_rendezvous(read_secret(path), path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadSecretFile(f"{printable(path)} can't be read ({type(error).__name__})", "look at its mode") from None


def find_broker(settings: Settings, environ: Mapping[str, str]) -> tuple[Reach, Rendezvous | None]:
    """Return how to reach the broker as things are now; raise NoBroker or BadInput if that isn't known."""
    try:
        rendezvous = read_rendezvous(environ)
    except BadInput:
        # A job script that names broker and token needs no home at all; only without them the file is to blame.
        if not (settings.broker or environ.get("DBG_BROKER")):
            raise
        rendezvous = None
    if rendezvous is None and not (settings.broker or environ.get("DBG_BROKER")):
        raise NoBroker
    reach = resolve(
        argument=settings.broker,
        environ=environ,
        rendezvous=rendezvous,
        role="rank",
        token_file_text=read_secret,
    )
    return reach, rendezvous
