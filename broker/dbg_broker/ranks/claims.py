"""What ranks and terminals claim about themselves, checked before anything is built on it.

The codec has checked types and sizes; here it is about meaning: names that become part of an address, and numbers
that go into frames. Paths and names of functions may hold any character, since no alphabet bounds them: whoever shows
them escapes them.
"""

from __future__ import annotations

import re

from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.messages import Attach, Complete, Greet, RankReport, Register, Replay, Source, Testimony
from dbg_wire.ranks import Breakpoint, Place, RankState

MAX_ANCESTORS = 64
"""Process ids above a rank: launchers nest a dozen deep; more is no process tree."""

MAX_NUMBER = 2**32 - 1
"""Largest number that a binary frame can carry for session, stop and generation."""

MAX_OFFSET = 2**53
"""Largest offset in a stream; a thousand years at 256 KiB a second."""

MAX_RANK = 10**9
"""Ranks, world sizes and lines above it are mistakes, and would only widen every column."""

MAX_CHILD = 10**6

MAX_NAME = 200
"""Characters of a terminal's name, ``user@host``, which others see beside a rank."""

MAX_AGE = 10 * 365 * 86400.0
"""Seconds of a stop, ten years: no machine is up for longer."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_KEY = re.compile(r"[!-~]{1,1000}")
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,64}")
_REPORTED = frozenset({RankState.RUNNING, RankState.STOPPED, RankState.HELD})


def check_register(message: Register) -> None:
    """Raise PeerError naming the first field that can't be true."""
    _check_text("register.key", message.key, _KEY, "1 to 1000 visible ASCII characters")
    for field in ("job", "run", "host"):
        _check_text(f"register.{field}", getattr(message, field), _NAME, "1 to 200 of A-Z a-z 0-9 . _ -")
    for field in ("release", "python"):
        _check_text(f"register.{field}", getattr(message, field), _WORD, "a version")
    for field in ("script", "directory", "kernel"):
        _check_length(f"register.{field}", getattr(message, field))
    _check_number("register.minor", message.minor, 0, MAX_RANK)
    _check_number("register.rank", message.rank, 0, MAX_RANK)
    _check_number("register.local_rank", message.local_rank, 0, MAX_RANK)
    _check_number("register.world_size", message.world_size, 1, MAX_RANK)
    _check_number("register.child", message.child, 1, MAX_CHILD)
    _check_number("register.pid", message.pid, 1, 2**31)
    if len(message.ancestors) > MAX_ANCESTORS:
        raise PeerError(f"register.ancestors has {len(message.ancestors)} elements, above {MAX_ANCESTORS}")
    for pid in message.ancestors:
        _check_number("register.ancestors", pid, 0, 2**31)
    check_report(message.report)


def check_report(report: RankReport) -> None:
    """Raise PeerError naming the first field that can't be true."""
    if report.state not in _REPORTED:
        raise PeerError(f"report.state is {report.state.value!r}, which no rank says of itself")
    for field in ("breakpoints", "queued", "applied"):
        _check_number(f"report.{field}", getattr(report, field), 0, 2**53)
    _check_number("report.generation", report.generation, 0, MAX_NUMBER)
    if report.stop is not None:
        _check_number("report.stop.number", report.stop.number, 0, MAX_NUMBER)
        _check_text("report.stop.reason", report.stop.reason, _WORD, "a word")
        if not 0 <= report.stop.age <= MAX_AGE:
            raise PeerError(f"report.stop.age is {report.stop.age}, not 0 to {MAX_AGE:.0f} seconds")
        check_place("report.stop.where", report.stop.where)
    if report.prompt is not None:
        _check_number("report.prompt.number", report.prompt.number, 0, MAX_OFFSET)
        _check_number("report.prompt.offset", report.prompt.offset, 0, MAX_OFFSET)
    if report.session is not None:
        _check_number("report.session.number", report.session.number, 0, MAX_NUMBER)
        _check_text("report.session.engine", report.session.engine, _WORD, "a word")
        _check_number("report.session.rows", report.session.rows, 0, MAX_RANK)
        _check_number("report.session.columns", report.session.columns, 0, MAX_RANK)
    _check_breakpoints(report.user_breakpoints)


def _check_breakpoints(breakpoints: tuple[Breakpoint, ...]) -> None:
    field = "report.user_breakpoints"
    if len(breakpoints) > limits.MAX_BREAKPOINTS:
        raise PeerError(f"{field} has {len(breakpoints)} elements, above {limits.MAX_BREAKPOINTS}")
    for breakpoint_ in breakpoints:
        _check_length(f"{field}.file", breakpoint_.file)
        if not breakpoint_.file.startswith("/"):
            raise PeerError(f"{field}.file is {breakpoint_.file[:80]!r}, not an absolute path")
        _check_number(f"{field}.line", breakpoint_.line, 1, MAX_RANK)
        if len(breakpoint_.text) > limits.MAX_LINE_TEXT:
            raise PeerError(f"{field}.text has {len(breakpoint_.text)} characters, above {limits.MAX_LINE_TEXT}")
        condition = breakpoint_.condition or ""
        if len(condition) > limits.MAX_CONDITION:
            raise PeerError(f"{field}.condition has {len(condition)} characters, above {limits.MAX_CONDITION}")


def check_place(field: str, place: Place) -> None:
    """Raise PeerError if a place is nowhere in any program."""
    _check_number(f"{field}.line", place.line, 0, MAX_RANK)
    _check_length(f"{field}.file", place.file)
    _check_length(f"{field}.function", place.function)


def check_frames(field: str, frames: tuple[Place, ...]) -> None:
    """Raise PeerError if a stack is none of any program."""
    if len(frames) > limits.MAX_STACK_FRAMES:
        raise PeerError(f"{field} has {len(frames)} frames, above {limits.MAX_STACK_FRAMES}")
    for frame in frames:
        check_place(field, frame)


def check_testimony(message: Testimony) -> None:
    """Raise PeerError naming the first field that can't be true."""
    _check_text("testimony.key", message.key, _KEY, "1 to 1000 visible ASCII characters")
    _check_number("testimony.minor", message.minor, 0, MAX_RANK)
    _check_number("testimony.signal", message.signal, 1, 64)
    _check_length("testimony.core", message.core)
    if not 0 <= message.age <= MAX_AGE:
        raise PeerError(f"testimony.age is {message.age}, not 0 to {MAX_AGE:.0f} seconds")
    check_frames("testimony.frames", message.frames)
    if message.registration is not None:
        check_register(message.registration)
        if message.registration.key != message.key:
            raise PeerError("testimony.registration is that of another rank")


def check_greet(message: Greet) -> None:
    """Raise PeerError if a terminal's name would act on others' terminals."""
    if not (0 < len(message.name) <= MAX_NAME and message.name.isprintable()):
        raise PeerError(f"greet.name is {message.name[:80]!r}, not 1 to {MAX_NAME} printable characters")


def check_attach(message: Attach) -> None:
    """Raise PeerError naming the first field that can't be meant."""
    _check_number("attach.resume", message.resume, 0, MAX_NUMBER)
    for name, engine in (("engine", message.engine), ("fallback_engine", message.fallback_engine)):
        if engine is not None:
            _check_text(f"attach.{name}", engine, _WORD, "a word")


def check_complete(message: Complete) -> None:
    """Raise PeerError unless what is to be completed lies in its line."""
    if not 0 <= message.begin <= message.end <= len(message.line):
        raise PeerError(f"complete is about {message.begin} to {message.end} of {len(message.line)} characters")


def check_replay(message: Replay) -> None:
    """Raise PeerError naming the first field that can't be meant."""
    _check_number("replay.session", message.session, 0, MAX_NUMBER)
    _check_number("replay.offset", message.offset, 0, MAX_OFFSET)


def check_source(message: Source) -> None:
    """Raise PeerError naming the first field that can't be true."""
    check_place("source.where", message.where)
    _check_number("source.first", message.first, 0, MAX_RANK)


def _check_length(field: str, value: str) -> None:
    if len(value) > limits.MAX_PATH:
        raise PeerError(f"{field} has {len(value)} characters, above {limits.MAX_PATH}")


def _check_text(field: str, value: str, pattern: re.Pattern[str], meaning: str) -> None:
    if not pattern.fullmatch(value):
        raise PeerError(f"{field} is {value[:80]!r}, not {meaning}")


def _check_number(field: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise PeerError(f"{field} is {value}, not {least} to {most}")
