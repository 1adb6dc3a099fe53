"""The stops that a job was started with: the code that holds them, whether they were reached, and messages about them.

Code that holds a stop calls :func:`.wish.reach` or, for a condition within the code, :func:`passed`; other code of the
program runs unchanged.
"""

from __future__ import annotations

import atexit
import builtins
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CodeType, FrameType, ModuleType

from dbg_agent.breakpoints import reached
from dbg_agent.breakpoints.insertion import CALL, HELD, PASSED, RAISED, RANK, compile_with
from dbg_agent.breakpoints.wish import (
    COMPILED,
    COMPILES,
    Wish,
    come_by,
    is_constant,
    is_left_out,
    number_of,
    reach,
)
from dbg_agent.frames.loaded_sources import compiled_sources
from dbg_agent.process.stderr import say
from dbg_dial.home import STOP_AT, STOP_IN
from dbg_wire.errors import printable
from dbg_wire.records.stop_points import StopAt, StopIn, parse_stops

PASSED_BY = "passed without stopping, because"


class Point(Wish):
    """One stop, and what became of it in this process."""

    def __init__(self, stop: StopAt | StopIn, index: int = 0) -> None:
        super().__init__(stop.condition if isinstance(stop, StopAt) else None)
        self.stop = stop
        self.number = number_of(self.reach)
        _BY_NUMBER[self.number] = self
        """The number by which code calls for it."""
        self.index = index
        """Its place in :data:`POINTS`."""
        file = _with_suffix(stop.file) if isinstance(stop, StopAt) else ""
        self.wanted = os.path.normpath(file)
        """The file as it was named, with its suffix."""
        # pathlib would be loaded into every rank.
        self.exact = os.path.realpath(file) if os.path.isfile(file) else ""  # noqa: PTH113
        """The path of the file, if the named file exists here. If empty, every file is meant whose path ends alike."""
        self.is_reached = False
        self.is_compiled = False
        """Torch's compiler has compiled the function, and left the stop out of its code."""
        self.line: int | None = None
        """The line at which the code holds it."""
        self.passed_by = ""
        """Why the program went on here without stopping, the last time that it did."""
        self.files: set[str] = set()
        """The files whose code holds it."""

    @property
    def shown(self) -> str:
        """Return it as it would be typed."""
        return printable(str(self.stop))

    def is_meant(self, path: str, modules: tuple[str, ...]) -> bool:
        """Tell whether it belongs to a source file that is loaded as one of these modules."""
        if isinstance(self.stop, StopIn):
            return self.stop.module in modules or ("__main__" in modules and _is_file_of(self.stop.module, path))
        # The names are compared first: this runs at each of thousands of imports, and to resolve a path takes long.
        if path.rpartition("/")[2] != self.wanted.rpartition("/")[2] and not os.path.islink(path):  # noqa: PTH114
            return False
        if self.exact:
            return os.path.realpath(path) == self.exact
        if os.path.isabs(self.wanted):  # noqa: PTH117
            return self.wanted in (path, os.path.realpath(path))
        return any(f"/{there}".endswith(f"/{self.wanted}") for there in (path, os.path.realpath(path)))

    # ------------------------------------------------------------------------------------------ in the program's thread

    def reach(self, frame: FrameType) -> None:
        """Stop in this frame unless the condition is false."""
        if is_left_out(frame):
            self.note_compiled()
            return
        come_by(frame, partial(self._is_due, frame), self.stop_at, _go_on)

    def _is_due(self, frame: FrameType, _is_traced: bool) -> bool:
        return self.comes_by(frame) and self.holds(frame, _rank, say)

    def comes_by(self, frame: FrameType) -> bool:
        """Note that the program is here, and tell whether it may stop."""
        global _process  # noqa: PLW0603 - one per process
        if not self.is_reached:
            _process = _load()
            self.is_reached = True
            self._report_to_parent(reached.REACHED)
        if not _process.halted_at(frame):
            return True
        # A step or a breakpoint has shown this line already.
        self.counted += 1
        self._report_held()
        return False

    def stop_at(self, frame: FrameType) -> None:
        """Stop in this frame; what the program raises meanwhile comes out."""
        self._report_held()
        self.passed_by = _process.stop_at(frame, {}, (), before_line=True, asked_for=True) or ""

    def _report_held(self) -> None:
        if self.counted == 1:
            self._report_to_parent(reached.HELD)

    def _report_to_parent(self, what: int) -> None:
        if not (_prints_messages and os.getpid() == _pid):
            reached.note(os.environ.get(reached.VARIABLE, ""), self.index, what)

    def note_compiled(self) -> None:
        """Note that torch's compiler has left it out of its code."""
        self.is_compiled = True
        if _prints_messages and not self.was_told:
            self.was_told = True
            say(f"{self.shown}: {COMPILED}")


_BY_NUMBER: dict[int, Point] = {}

POINTS: list[Point] = []
"""The stops of this process, in their order."""

_prints_messages = False
_pid = 0
_load: Callable[[], ModuleType]
_process: ModuleType
"""The module that makes this process a rank, :mod:`dbg_agent.program.entry`. Set when the first stop is reached: helper
processes that reach no stop don't load it."""
_failed: Callable[[str, Exception], None]


def begin(
    environ: Mapping[str, str],
    *,
    is_rank: bool,
    load: Callable[[], ModuleType],
    failed: Callable[[str, Exception], None],
) -> bool:
    """Take the stops from the environment, and tell whether there are any; only a rank prints messages about them.

    Called once in a process. ``load`` returns the module that makes this process a rank. ``failed`` reports why a stop
    failed.
    """
    global _prints_messages, _pid, _load, _failed  # noqa: PLW0603 - one per process
    _load, _failed = load, failed
    stops, problems = parse_stops(environ.get(STOP_AT, ""), environ.get(STOP_IN, ""))
    _prints_messages = is_rank and _speaks(environ)
    _pid = os.getpid()
    for problem in problems if _prints_messages else ():
        say(f"{problem}; ignored")
    POINTS.extend(Point(stop, index) for index, stop in enumerate(stops))
    if POINTS:
        if _prints_messages:
            reached.share(os.environ)
        for name, function in CALLS.items():
            setattr(builtins, name, function)
        atexit.register(_report)
    return bool(POINTS)


def _speaks(environ: Mapping[str, str]) -> bool:
    """Tell whether this rank prints messages for all: only the first rank that may stop does, not a thousand ranks."""
    from dbg_agent.launch.this_process import this_process
    from dbg_agent.settings import read_settings

    chosen = read_settings("install", {}, (), environ, lambda _: None).ranks
    return this_process().rank == (chosen[0] if chosen else 0)


def _with_suffix(file: str) -> str:
    return file if file.endswith(".py") else f"{file}.py"


def _is_file_of(module: str, path: str) -> bool:
    """Tell whether a script's path is the path of this module."""
    return f"/{os.path.realpath(path)}".endswith(f"/{module.replace('.', '/')}.py")


def points_for(path: str, *modules: str) -> list[Point]:
    """Return the stops that belong to a source file which is loaded as one of these modules."""
    return [point for point in POINTS if point.is_meant(path, modules)]


def _numbered(points: Iterable[Point]) -> list[tuple[int, StopAt | StopIn]]:
    return [(point.number, point.stop) for point in points]


def stops_in(path: str) -> list[tuple[int, StopAt | StopIn]]:
    """Return the stops, by their numbers, that the code of this file holds."""
    return _numbered(point for point in POINTS if path in point.files)


def stops_at(path: str, line: int) -> bool:
    """Tell whether the code of this file holds a stop at this line."""
    return any(point.line == line and path in point.files for point in POINTS)


def compile_file(source: bytes, path: str, *modules: str) -> CodeType:
    """Return the code of a source file with its stops in it; raise what ``compile`` raises."""
    points = points_for(path, *modules)
    code, placed = compile_with(source, path, _numbered(points))
    for point, place in zip(points, placed, strict=True):
        if place.line is None:
            _note_problem(point, f"{path}: {place.problem}")
            continue
        if isinstance(point.stop, StopAt) and place.line != point.stop.line and path not in point.files:
            _report_moved(point, point.stop.line, place.line)
        point.files.add(path)
        point.problem = ""
        point.line = place.line
        compiled_sources[path] = source
    return code


def _report_moved(point: Point, asked: int, line: int) -> None:
    if _prints_messages:
        why = "has no code of its own" if line > asked else f"is inside the statement of line {line}"
        say(f"{point.shown}: line {asked} {why}; stopping at line {line}")


def cant_place(path: str, reason: str, *modules: str) -> None:
    """Note why the stops of this file can't be placed."""
    for point in points_for(path, *modules):
        _note_problem(point, f"{path}: {reason}")


def _note_problem(point: Point, problem: str) -> None:
    if not point.files:
        point.problem = problem


# ------------------------------------------------------------------------------- what code with conditions in it calls


def passed(number: int) -> bool:
    """Tell whether the condition of a stop is to be evaluated; the calling code then evaluates it."""
    try:
        frame = sys._getframe(1)
        point = _BY_NUMBER[number]
        if frame.f_code.co_name == COMPILES:
            point.note_compiled()
            return False
        # A stop with a false condition may be passed a million times, so the usual case is checked first.
        return (point.is_reached and _process.no_step_ends()) or point.comes_by(frame)
    except Exception as error:
        _go_on(error)
        return False


is_constant(passed)


def held(number: int) -> None:
    """Stop in the caller's frame, whose condition is true or has raised."""
    point = _BY_NUMBER[number]
    point.counted += 1
    come_by(sys._getframe(1), lambda _: True, point.stop_at, _go_on)


def raised(number: int) -> type[Exception] | tuple[()]:
    """Return the errors that the caller must catch: those of its condition, not those of the stop."""
    _, error, traceback = sys.exc_info()
    below = traceback.tb_next if traceback is not None else None
    if not isinstance(error, Exception) or (below is not None and below.tb_frame.f_code is held.__code__):
        return ()
    try:
        _BY_NUMBER[number].note_raised(say, error)
    except Exception as failure:
        _go_on(failure)
        return ()
    return Exception


def own_rank() -> object:
    """Return the caller's global ``rank``, or this process's rank if there is none."""
    known = sys._getframe(1).f_globals
    return known["rank"] if "rank" in known else _process.rank_number()


CALLS: dict[str, Callable[..., object]] = {CALL: reach, PASSED: passed, HELD: held, RAISED: raised, RANK: own_rank}
"""The builtins that code with stops in it calls."""


def _go_on(error: Exception) -> None:
    _failed("--stop-at", error)


# ------------------------------------------------------------------------------------------------ what users are told


def _report() -> None:
    """Report at the end of the process which stops were never reached."""
    if not _prints_messages or os.getpid() != _pid:
        return
    for point in POINTS:
        reason = _why_not(point)
        if point.passed_by:
            say(f"{point.shown} was {PASSED_BY} {printable(point.passed_by)}")
        elif reason:
            say(f"{point.shown} was never reached: {printable(reason)}")


def _why_not(point: Point) -> str:
    """Return why a stop was never reached, as far as this rank can tell; "" if it was reached."""
    by_child = reached.noted(os.environ.get(reached.VARIABLE, ""), point.index)
    if point.counted or by_child == reached.HELD:
        return ""
    if point.is_compiled and not point.is_reached:
        # This was reported when the function was compiled.
        return ""
    if point.is_reached or by_child:
        return f"in rank {_rank()} its condition was never true"
    if point.files:
        return f"rank {_rank()} never came there"
    if point.problem:
        return point.problem
    elsewhere = _loaded_elsewhere(point)
    if elsewhere:
        return elsewhere
    if isinstance(point.stop, StopIn):
        return f"no module {point.stop.module} was imported"
    return f"no file {_with_suffix(point.stop.file)} was loaded"


def _loaded_elsewhere(point: Point) -> str:
    """Return how a module with this stop was loaded without it: before there were stops, or by another finder."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(path, str) and point.is_meant(path, (name,)):
            loader = type(getattr(module, "__loader__", None))
            return f"{path}: it is loaded by {loader.__module__}.{loader.__qualname__}"
    return ""


def _rank() -> int:
    return int(_load().rank_number())
