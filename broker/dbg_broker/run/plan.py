"""What one run is to do: what was typed now, and what is remembered of the last run.

A stop of the last run is found again by the text of its line. Stops in files that aren't there are told before the job
starts; nothing is imported for that.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dbg_broker.run.remembered import KeptStop, NothingToRepeat, Remembered
from dbg_broker.run.settings import RunOptions, RunSettings, check_on_hang, typed_stops
from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_LINE_TEXT
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.records.stop_points import StopAt, StopIn, parse_stop_at

MAX_SECONDS = 1.0
"""Seconds that looking may take before the job starts; what isn't found by then may be there."""

_SKIPPED = frozenset({".git", "__pycache__", "node_modules", ".venv"})
"""Folders without sources of the program: a `.venv` is looked through where it is on the path."""

MAX_SOURCE_BYTES = 10_000_000
"""Bytes of a source file that are looked through for a line; no file that people debug is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run does.

    ``texts`` are the texts of the lines of ``options.stop_at`` at the job's start: the files may be edited before its
    end. ``breakpoints`` are those of earlier runs that are set in this one, too. ``prefer`` is the rank followed last
    time, ``notes`` are what the user should know.
    """

    directory: str
    command: tuple[str, ...]
    options: RunOptions
    texts: tuple[str | None, ...] = ()
    breakpoints: tuple[KeptStop, ...] = ()
    prefer: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def stops(self) -> list[StopAt | StopIn]:
        """Return all stops of the job, none twice."""
        typed = typed_stops(self.options)
        places = {(stop.file, stop.line) for stop in typed if isinstance(stop, StopAt)}
        return [*typed, *(kept.stop for kept in self.breakpoints if (kept.file, kept.line) not in places)]

    def to_remember(self, breakpoints: Sequence[Breakpoint], rank: int | None) -> Remembered:
        """Return what to remember of this run, given what was set in it and which rank was followed."""
        return Remembered(
            command=self.command,
            options=self.options,
            texts=self.texts,
            breakpoints=keep_breakpoints(breakpoints, self.breakpoints),
            rank=self.prefer if rank is None else rank,
        )


def make_plan(settings: RunSettings, last: Remembered | None) -> Plan:
    """Return what to do. Raise NothingToRepeat, and BadInput for a line that a file does not have."""
    for stop in typed_stops(settings.options):
        if isinstance(stop, StopAt):
            refuse_short(stop, settings.directory)
    if settings.again:
        if last is None:
            raise NothingToRepeat(settings.directory)
        return _again(settings, last)
    is_same = last is not None and (last.command, last.options) == (settings.command, settings.options)
    return Plan(
        directory=settings.directory,
        command=settings.command,
        options=settings.options,
        texts=keep_texts(settings.options, settings.directory),
        prefer=last.rank if last is not None and is_same else None,
    )


def _again(settings: RunSettings, last: Remembered) -> Plan:
    given, directory = settings.options, settings.directory
    has_new_stops = bool(given.stop_at or given.stop_in)
    former = [
        KeptStop.of(parse_stop_at(typed), text) for typed, text in zip(last.options.stop_at, last.texts, strict=True)
    ]
    typed = [moved(kept, directory) for kept in former]
    breakpoints = [moved(kept, directory) for kept in last.breakpoints]
    notes = [
        f"{printable(now.file)}:{before.line} is line {now.line} now"
        for before, now in zip([*former, *last.breakpoints], [*typed, *breakpoints], strict=True)
        if before.line != now.line
    ]
    options = replace(last.options, stop_at=tuple(kept.stop.typed for kept in typed)).with_changes(given)
    check_on_hang(options)
    plan = Plan(
        directory=directory,
        command=last.command,
        options=options,
        texts=keep_texts(options, directory) if has_new_stops else tuple(kept.text for kept in typed),
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


def text_of(lines: Sequence[str], number: int) -> str | None:
    """Return the text of a line without the blanks around it; None if there is no such line, or it is blank."""
    return (lines[number - 1].strip() or None) if 0 < number <= len(lines) else None


def find_again(lines: Sequence[str], number: int, text: str | None) -> int:
    """Return the number that a line with this text has now: the same, or the only other line that has it."""
    if text is None:
        return number
    # A rank reports only so much of a breakpoint's line.
    begin = text[:MAX_LINE_TEXT]
    if (text_of(lines, number) or "")[:MAX_LINE_TEXT] == begin:
        return number
    equal = [at for at, line in enumerate(lines, 1) if line.strip()[:MAX_LINE_TEXT] == begin]
    return equal[0] if len(equal) == 1 else number


def notes_of_unfound(stops: Sequence[StopAt | StopIn], directory: str, command: Sequence[str]) -> list[str]:
    """Return a sentence for each stop whose file or module is neither below the directory nor on the path."""
    here = _Files(directory, time.monotonic() + MAX_SECONDS)
    return [note for stop in stops if (note := _note_of(stop, here, directory, command)) is not None]


def _note_of(stop: StopAt | StopIn, here: _Files, directory: str, command: Sequence[str]) -> str | None:
    if isinstance(stop, StopIn):
        ends, what = _ends_of_module(stop.module), f"module {stop.module}"
        if stop.module == "__main__" or stop.module.partition(".")[0] in sys.stdlib_module_names:
            return None
    else:
        file = stop.file if stop.file.endswith(".py") else f"{stop.file}.py"
        ends, what = [os.path.normpath(file)], file
    path = _path(directory, command)
    if any(Path(entry, end).exists() for end in ends for entry in path) or here.has(ends):
        return None
    if any(_Files(entry, here.deadline).has(ends) for entry in path[1:]) or time.monotonic() > here.deadline:
        return None
    meant = _meant(stop, ends[0], here)
    guess = f"; did you mean {printable(meant)}?" if meant else ""
    return f"{printable(str(stop))}: there is no {printable(what)} here or on the path{guess}"


def _ends_of_module(module: str) -> list[str]:
    base = module.replace(".", "/")
    return [f"{base}.py", f"{base}/__init__.py"]


def _meant(stop: StopAt | StopIn, end: str, here: _Files) -> str | None:
    import difflib  # hardly ever needed

    known = {str(Path(file).relative_to(here.root)): None for file in here.files}
    names = {Path(file).name: file for file in reversed(known)}
    found = difflib.get_close_matches(end, known, 1) or [
        names[name] for name in difflib.get_close_matches(Path(end).name, names, 1)
    ]
    if not found:
        return None
    if isinstance(stop, StopAt):
        return found[0]
    return found[0].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _path(directory: str, command: Sequence[str]) -> list[str]:
    """Return where the job's Python most likely looks for modules, the directory first."""
    scripts = [str(Path(directory, word).parent) for word in command if word.endswith(".py")]
    named = [str(Path(directory, entry)) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    ours = [entry for entry in sys.path if entry and Path(entry).is_dir()]
    return list(dict.fromkeys([directory, *scripts, *named, *ours]))


@dataclass
class _Files:
    """The source files below a folder, found as far as time allows."""

    root: str
    deadline: float
    files: list[str] = field(default_factory=list)
    _rest: Iterator[str] | None = None

    def has(self, ends: Sequence[str]) -> bool:
        """Tell whether the path of one of the files ends with one of ``ends``."""
        wanted = tuple(end if end.startswith("/") else f"/{end}" for end in ends)
        if any(file.endswith(wanted) for file in self.files):
            return True
        if self._rest is None:
            self._rest = self._walk()
        for file in self._rest:
            self.files.append(file)
            if file.endswith(wanted):
                return True
        return False

    def _walk(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self.root):
            if time.monotonic() > self.deadline:
                return
            folders[:] = [name for name in folders if name not in _SKIPPED]
            yield from (f"{folder}/{name}" for name in names if name.endswith(".py"))


def keep_texts(options: RunOptions, directory: str) -> tuple[str | None, ...]:
    """Return the text of the line of each stop that was typed, None where the file isn't found from the directory."""
    return tuple(_text_at(parse_stop_at(typed), directory) for typed in options.stop_at)


def keep_breakpoints(breakpoints: Sequence[Breakpoint], former: Sequence[KeptStop]) -> tuple[KeptStop, ...]:
    """Return what to keep of breakpoints that were set in a debugger, behind those that were kept before."""
    kept = {(one.file, one.line): one for one in former}
    for point in breakpoints:
        stop = StopAt(file=point.file, line=point.line, condition=point.condition)
        if _can_be_told(stop):
            # The file may have been edited since, so that another statement stands there by now.
            kept[point.file, point.line] = KeptStop.of(stop, point.text or None)
    return tuple(kept.values())


def _can_be_told(stop: StopAt) -> bool:
    """Tell whether ranks can read a stop from a line of a variable: a debugger accepts stops that don't fit there."""
    try:
        return parse_stop_at(stop.typed) == stop
    except BadInput:
        return False


def moved(kept: KeptStop, directory: str) -> KeptStop:
    """Return a stop at the line where its text is now, and the text of that line, by which it is found next time."""
    lines = _lines(kept.file, directory)
    if lines is None:
        return kept
    line = find_again(lines, kept.line, kept.text)
    return replace(kept, line=line, text=text_of(lines, line) or kept.text)


def refuse_short(stop: StopAt, directory: str) -> None:
    """Raise BadInput for a line behind the end of a file that is found from the directory."""
    lines = _lines(stop.file, directory)
    if lines is not None and stop.line > len(lines):
        raise BadInput(
            f"--stop-at {printable(stop.file)}:{stop.line} is behind the file's end, which has {len(lines)} lines",
            "name one of them",
        )


def _text_at(stop: StopAt, directory: str) -> str | None:
    lines = _lines(stop.file, directory)
    return None if lines is None else text_of(lines, stop.line)


def _lines(file: str, directory: str) -> list[str] | None:
    path = Path(directory, file)
    try:
        if not path.is_file() or path.stat().st_size > MAX_SOURCE_BYTES:
            return None
        return path.read_bytes().decode("utf-8", "replace").removesuffix("\n").split("\n")
    except OSError:
        return None
