"""The stops of the command line (`--stop-at`, `--stop-in`): their files, their outcome, and messages about them.

The file of a stop may be loaded later. A stop gets its line when the module of its file starts to run.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

from dbg_agent.breakpoints.conditional_stop import ConditionalStop, check_stop, mechanism
from dbg_agent.breakpoints.placing import WITHIN_STATEMENTS, Placed, place
from dbg_agent.frames.loaded_sources import file_of, read_file
from dbg_agent.process.log import write_stderr
from dbg_dial.home import STOP_AT, STOP_IN
from dbg_wire.errors import printable
from dbg_wire.records.stop_points import StopAt, StopIn, parse_stops

if TYPE_CHECKING:
    from dbg_agent.breakpoints.at_import import AtImport
    from dbg_agent.breakpoints.monitored import Monitored

SKIPPED = "passed without stopping, because"


class StartupStop(ConditionalStop):
    """One stop of the command line, and its outcome in this process."""

    def __init__(self, stop: StopAt | StopIn) -> None:
        super().__init__(stop.condition if isinstance(stop, StopAt) else None)
        self.stop = stop
        file = _with_suffix(stop.file) if isinstance(stop, StopAt) else ""
        self._wanted = os.path.normpath(file)
        """The file as the user named it, with its suffix."""
        # No pathlib, because every rank would have to load it.
        self._exact = os.path.realpath(file) if os.path.isfile(file) else ""  # noqa: PTH113
        """The real path if the file exists here. If empty, all files whose path ends with the name have the stop."""
        self.is_reached = False
        self.places: dict[str, Placed] = {}
        """Where the stop takes effect, by the path of each loaded file that the stop is in."""
        self.skip_reason = ""
        """Why the program did not stop when it most recently reached this stop; empty if it stopped."""

    @property
    def shown(self) -> str:
        """The option as a user would type it."""
        return printable(str(self.stop))

    def is_meant(self, path: str, module: str) -> bool:
        """Return True if the stop is in this source file, which is loaded as ``module``."""
        if isinstance(self.stop, StopIn):
            return self.stop.module == module or (module in _MAIN and _is_file_of(self.stop.module, path))
        # Compare the base names first: this runs at each of thousands of imports, and resolving a path is slow.
        if path.rpartition("/")[2] != self._wanted.rpartition("/")[2] and not os.path.islink(path):  # noqa: PTH114
            return False
        if self._exact:
            return os.path.realpath(path) == self._exact
        if os.path.isabs(self._wanted):  # noqa: PTH117
            return self._wanted in (path, os.path.realpath(path))
        return any(f"/{there}".endswith(f"/{self._wanted}") for there in (path, os.path.realpath(path)))

    def line_in(self, path: str) -> int | None:
        """Return the line of the stop in this file, or None if the stop can't be placed."""
        if path not in self.places:
            self.places[path] = placed = self._place(path)
            asked = self.stop.line if isinstance(self.stop, StopAt) else placed.line
            if _prints_messages and placed.line is not None and placed.line != asked:
                write_stderr(
                    f"{self.shown}: stopping at line {placed.line}, the next line with code or the statement's start"
                )
        return self.places[path].line

    def _place(self, path: str) -> Placed:
        found = read_file(path)
        if found is None:
            return Placed(None, "the file can't be read")
        try:
            return place(found, path, self.stop.line if isinstance(self.stop, StopAt) else self.stop.function)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return Placed(None, f"the file can't be compiled ({type(error).__name__})")

    # ------------------------------------------------------------------------------------------ in the program's thread

    def reach(self, frame: FrameType) -> None:
        """Stop in this frame unless the condition is false."""
        check_stop(frame, partial(self._is_due, frame), self._stop_at, _go_on)

    def _is_due(self, frame: FrameType, _is_traced: bool) -> bool:
        global _process  # noqa: PLW0603 - one per process
        # A `--stop-in` stops once per call. If the function begins with a loop, sys.monitoring reports the loop's line
        # at each iteration.
        if isinstance(self.stop, StopIn) and WITHIN_STATEMENTS and not _begins_line(frame):
            return False
        if not self.is_reached:
            _process = _load()
            self.is_reached = True
        if _process.halted_at(frame):
            # A step or a breakpoint has stopped at this line already.
            self.counted += 1
            return False
        return self.holds(frame, _rank, write_stderr)

    def _stop_at(self, frame: FrameType) -> None:
        self.skip_reason = _process.stop_at(frame, {}, (), before_line=True, asked_for=True) or ""


def _begins_line(frame: FrameType) -> bool:
    """Return True if the frame is at the first instruction of its line, not at a later iteration of a loop."""
    lines = [(start, line) for start, _, line in frame.f_code.co_lines() if start <= frame.f_lasti]
    first = next(start for start, line in lines if line == frame.f_lineno)
    return frame.f_lasti == first


STARTUP_STOPS: list[StartupStop] = []
"""The stops of this process, in the order of the command line."""

_MAIN = "__main__", "__mp_main__"
"""Module names of the script. multiprocessing loads the parent's script under the second name."""

_prints_messages = False
_pid = 0
_load: Callable[[], ModuleType]
_process: ModuleType
"""The module :mod:`dbg_agent.program.entry`, which makes this process a rank. It is loaded when the first stop is
reached, so helper processes that reach no stop don't load it."""
_failed: Callable[[str, Exception], None]
_mechanism: Monitored | AtImport | None = None


def start(
    environ: Mapping[str, str],
    *,
    is_rank: bool,
    load: Callable[[], ModuleType],
    failed: Callable[[str, Exception], None],
) -> None:
    """Read the stops from the environment and arm them.

    Called once in a process. Only a rank prints messages about stops. ``load`` returns the module that makes this
    process a rank. ``failed`` reports the error of a stop that failed.
    """
    global _prints_messages, _pid, _load, _failed  # noqa: PLW0603 - one per process
    _load, _failed = load, failed
    stops, problems = parse_stops(environ.get(STOP_AT, ""), environ.get(STOP_IN, ""))
    _prints_messages = is_rank and _speaks(environ)
    _pid = os.getpid()
    for problem in problems if _prints_messages else ():
        write_stderr(f"{problem}; ignored")
    for stop in stops:
        add(StartupStop(stop), {})


def add(stop: StartupStop, loaded: Mapping[str, object]) -> None:
    """Arm a stop in files that are loaded later and, from Python 3.12 on, in the files of the ``loaded`` modules."""
    global _mechanism  # noqa: PLW0603 - one per process
    if _mechanism is None:
        _mechanism = mechanism(reached, lines_of)
        atexit.register(_report)
    STARTUP_STOPS.append(stop)
    paths = {os.path.abspath(path) for one in list(loaded.values()) if (path := file_of(one))}  # noqa: PTH100
    if lines := {path: found for path in paths if (found := lines_of(path, ""))}:
        _mechanism.serve(lines)


def _speaks(environ: Mapping[str, str]) -> bool:
    """Return True if this rank prints the messages: only the first rank that may stop does, not each of a thousand."""
    from dbg_agent.launch.this_process import this_process
    from dbg_agent.settings import read_settings

    chosen = read_settings("install", {}, (), environ, lambda _: None).ranks
    return this_process().rank == (chosen[0] if chosen else 0)


def _with_suffix(file: str) -> str:
    return file if file.endswith(".py") else f"{file}.py"


def _is_file_of(module: str, path: str) -> bool:
    """Return True if the script at ``path`` is the file of this module, according to the end of its path."""
    return f"/{os.path.realpath(path)}".endswith(f"/{module.replace('.', '/')}.py")


def lines_of(path: str, module: str) -> frozenset[int]:
    """Return the lines with stops in a file that is loaded as ``module``."""
    lines = (point.line_in(path) for point in STARTUP_STOPS if point.is_meant(path, module))
    return frozenset(line for line in lines if line is not None)


def reached(frame: FrameType, path: str, line: int) -> None:
    """Stop the calling thread of the program if a stop of this line is due."""
    for point in STARTUP_STOPS:
        if path in point.places and point.places[path].line == line:
            point.reach(frame)


def stops_at(path: str, line: int) -> bool:
    """Return True if this file has a stop of the command line at this line."""
    return any(path in point.places and point.places[path].line == line for point in STARTUP_STOPS)


def _go_on(error: Exception) -> None:
    _failed("--stop-at", error)


# ------------------------------------------------------------------------------------------------------- the messages


def _report() -> None:
    """Report the stops at which this process did not stop. Called at its exit."""
    if not _prints_messages or os.getpid() != _pid:
        return
    for point in STARTUP_STOPS:
        if point.skip_reason:
            write_stderr(f"{point.shown} was {SKIPPED} {printable(point.skip_reason)}")
        elif not point.counted:
            write_stderr(f"rank {_rank()} didn't stop at {point.shown}: {printable(_why_not(point))}")


def _why_not(point: StartupStop) -> str:
    """Return the reason why this process did not stop at ``point``. Its child processes may have stopped there."""
    if point.is_reached:
        return "its condition was never true"
    if any(placed.line is not None for placed in point.places.values()):
        return "it never reached the line"
    for path, placed in point.places.items():
        return f"{path}: {placed.problem}"
    if isinstance(point.stop, StopIn):
        return f"it never imported a module {point.stop.module}"
    return f"it never loaded a file {_with_suffix(point.stop.file)}"


def _rank() -> int:
    return int(_load().rank_number())
