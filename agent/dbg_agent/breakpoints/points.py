"""The stops that a job was started with: the code that holds them, whether they were reached, and messages about them.

Code that holds a stop calls :func:`reach` or :func:`passed`; other code of the program runs unchanged.
"""

from __future__ import annotations

import atexit
import builtins
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING

from dbg_agent.breakpoints import reached
from dbg_agent.breakpoints.conditions import holds, raised_text
from dbg_agent.breakpoints.insertion import CALL, HELD, PASSED, RAISED, RANK, compile_with
from dbg_agent.process.stderr import say
from dbg_agent.stop.loaded_sources import compiled_sources
from dbg_agent.stop.room import make_room
from dbg_wire.errors import printable
from dbg_wire.finding.environment import STOP_AT, STOP_IN
from dbg_wire.records.stop_points import StopAt, StopIn, parse_stops

if TYPE_CHECKING:
    from dbg_wire.records.breakpoints import StopState

COMPILES = "invoke_and_store_as_constant"
"""Dynamo's function that calls a function marked as constant, in place of the program."""

PASSED_BY = "passed without stopping, because"

COMPILED = (
    "torch.compile has made other code of its function, which doesn't stop there; "
    "with TORCHDYNAMO_DISABLE=1 nothing is compiled"
)


@dataclass(slots=True)
class Point:
    """One stop, and what became of it in this process."""

    stop: StopAt | StopIn
    number: int = 0
    wanted: str = ""
    """The file as it was named, with its suffix. :attr:`name` is its last part."""
    name: str = ""
    exact: str = ""
    """The path of the file, if the named file exists here. If empty, every file is meant whose path ends alike."""
    problem: str = ""
    is_reached: bool = False
    is_compiled: bool = False
    """Torch's compiler has compiled the function, and left the stop out of its code."""
    was_told: bool = False
    line: int | None = None
    """The line at which the code holds it."""
    passed_by: str = ""
    """Why the program went on here without stopping, the last time that it did."""
    hits: int = 0
    """How often the program was at the stop with a true condition."""
    files: set[str] = field(default_factory=set)
    """The files whose code holds it."""

    @property
    def is_placed(self) -> bool:
        """Tell whether the code of a file holds it."""
        return bool(self.files)


POINTS: list[Point] = []
"""The stops of this process, by their numbers."""

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
    POINTS.extend(point_of(stop, number) for number, stop in enumerate(stops))
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


def point_of(stop: StopAt | StopIn, number: int = 0) -> Point:
    """Return a stop that is not placed yet."""
    point = Point(stop, number)
    if isinstance(stop, StopAt):
        point.wanted = os.path.normpath(_with_suffix(stop.file))
        point.name = os.path.basename(point.wanted)  # noqa: PTH119
        if os.path.isfile(_with_suffix(stop.file)):  # noqa: PTH113 - pathlib would be loaded into every rank
            point.exact = os.path.realpath(_with_suffix(stop.file))
    return point


def _with_suffix(file: str) -> str:
    return file if file.endswith(".py") else f"{file}.py"


def points_for(path: str, *modules: str) -> list[tuple[int, StopAt | StopIn]]:
    """Return the stops, with their numbers, that belong to a source file which is loaded as one of these modules."""
    return [(number, point.stop) for number, point in enumerate(POINTS) if _is_meant(point, path, modules)]


def _is_meant(point: Point, path: str, modules: tuple[str, ...]) -> bool:
    if isinstance(point.stop, StopIn):
        return point.stop.module in modules or ("__main__" in modules and _is_file_of(point.stop.module, path))
    wanted = point.wanted
    # The names are compared first: this runs at each of thousands of imports, and to resolve a path takes long.
    if path.rpartition("/")[2] != point.name and not os.path.islink(path):  # noqa: PTH114
        return False
    if point.exact:
        return os.path.realpath(path) == point.exact
    if os.path.isabs(wanted):  # noqa: PTH117
        return wanted in (path, os.path.realpath(path))
    return any(f"/{there}".endswith(f"/{wanted}") for there in (path, os.path.realpath(path)))


def _is_file_of(module: str, path: str) -> bool:
    """Tell whether a script's path is the path of this module."""
    return f"/{os.path.realpath(path)}".endswith(f"/{module.replace('.', '/')}.py")


def compile_file(source: bytes, path: str, *modules: str) -> CodeType:
    """Return the code of a source file with its stops in it; raise what ``compile`` raises."""
    stops = points_for(path, *modules)
    code, placed = compile_with(source, path, stops)
    for (number, stop), place in zip(stops, placed, strict=True):
        point = POINTS[number]
        if place.line is None:
            point.problem = f"{path}: {place.problem}"
            continue
        if isinstance(stop, StopAt) and place.line != stop.line and path not in point.files:
            _report_moved(stop, place.line)
        point.files.add(path)
        point.line = place.line
        compiled_sources[path] = source
    return code


def _report_moved(stop: StopAt, line: int) -> None:
    if _prints_messages:
        why = "has no code of its own" if line > stop.line else f"is inside the statement of line {line}"
        say(f"{_shown(stop)}: line {stop.line} {why}; stopping at line {line}")


def cant_place(path: str, reason: str, *modules: str) -> None:
    """Note why the stops of this file can't be placed."""
    for number, _ in points_for(path, *modules):
        POINTS[number].problem = f"{path}: {reason}"


def reach(number: int) -> None:
    """Stop in the caller's frame unless the condition is false; code with a stop in it calls this."""
    frame = sys._getframe(1)
    try:
        if not _comes_by(POINTS[number], frame) or not _holds(POINTS[number], frame):
            return
    except Exception as error:
        _go_on(error)
        return
    _stop(number, frame)


def passed(number: int) -> bool:
    """Tell whether the condition of a stop is to be evaluated; the calling code then evaluates it."""
    try:
        frame = sys._getframe(1)
        point = POINTS[number]
        # A stop with a false condition may be passed a million times, so the usual case is checked first.
        if point.is_reached and frame.f_code.co_name != COMPILES and _process.no_step_ends():
            return True
        return _comes_by(point, frame)
    except Exception as error:
        _go_on(error)
        return False


def held(number: int) -> None:
    """Stop in the caller's frame, whose condition is true or has raised."""
    _stop(number, sys._getframe(1))


def raised(number: int) -> type[Exception] | tuple[()]:
    """Return the errors that the caller must catch: those of its condition, not those of the stop."""
    _, error, traceback = sys.exc_info()
    below = traceback.tb_next if traceback is not None else None
    if not isinstance(error, Exception) or (below is not None and below.tb_frame.f_code is held.__code__):
        return ()
    try:
        _report_raised(POINTS[number], error)
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

for _function in (reach, passed):
    # `torch._dynamo.assume_constant_result` sets this mark: Dynamo then calls the function while it compiles, breaks no
    # graph, takes the result for constant, and leaves out the code that follows a False.
    vars(_function)["_dynamo_marked_constant"] = True


def _comes_by(point: Point, frame: FrameType) -> bool:
    """Note that the program is at a stop, and tell whether it may stop there."""
    global _process  # noqa: PLW0603 - one per process
    if frame.f_code.co_name == COMPILES:
        _report_compiled(point)
        return False
    if not point.is_reached:
        with make_room():
            _process = _load()
        point.is_reached = True
        _report_to_parent(point, reached.REACHED)
    if _process.halted_at(frame):
        # A step or a breakpoint has shown this line already.
        _note_held(point)
        return False
    return True


def _note_held(point: Point) -> None:
    point.hits += 1
    if point.hits == 1:
        _report_to_parent(point, reached.HELD)


def _report_to_parent(point: Point, what: int) -> None:
    """Tell the parent rank that this process was at a stop."""
    if not (_prints_messages and os.getpid() == _pid):
        reached.note(os.environ.get(reached.VARIABLE, ""), point.number, what)


def _report_compiled(point: Point) -> None:
    point.is_compiled = True
    if _prints_messages and not point.was_told:
        point.was_told = True
        say(f"{_shown(point.stop)}: {COMPILED}")


def _stop(number: int, frame: FrameType) -> None:
    try:
        _note_held(POINTS[number])
        room = make_room()
    except Exception as error:
        _go_on(error)
        return
    with room:
        POINTS[number].passed_by = _process.stop_at(frame, {}, (), before_line=True, asked_for=True) or ""


def _go_on(error: Exception) -> None:
    _failed("--stop-at", error)


def _holds(point: Point, frame: FrameType) -> bool:
    """Tell whether the condition is true here."""
    if not isinstance(point.stop, StopAt) or point.stop.condition is None:
        return True
    tracer = sys.gettrace()
    # Tracing is off meanwhile, as in set_trace: no line in here is worth a step.
    sys.settrace(None)
    try:
        # Close to the recursion limit a RecursionError would count as a condition that raised.
        with make_room():
            return holds(point.stop.condition, frame, _rank, partial(_report_raised, point))
    finally:
        sys.settrace(tracer)


def _report_raised(point: Point, error: BaseException) -> None:
    if not point.was_told:
        point.was_told = True
        say(f"{_shown(point.stop)}: {raised_text(error)}; stopping all the same")


def _shown(stop: StopAt | StopIn) -> str:
    return printable(str(stop))


def _report() -> None:
    """Report at the end of the process which stops were never reached."""
    if not _prints_messages or os.getpid() != _pid:
        return
    for point in POINTS:
        reason = _why_not(point)
        if point.passed_by:
            say(f"{_shown(point.stop)} was {PASSED_BY} {printable(point.passed_by)}")
        elif reason:
            say(f"{_shown(point.stop)} was never reached: {printable(reason)}")


def _why_not(point: Point) -> str:
    """Return why a stop was never reached, as far as this rank can tell; "" if it was reached."""
    by_child = reached.noted(os.environ.get(reached.VARIABLE, ""), point.number)
    if point.hits or by_child == reached.HELD:
        return ""
    if point.is_compiled and not point.is_reached:
        # This was reported when the function was compiled.
        return ""
    if point.is_reached or by_child:
        return f"in rank {_rank()} its condition was never true"
    if point.is_placed:
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
        if name != "__main__" and isinstance(path, str) and _is_meant(point, path, (name,)):
            loader = type(getattr(module, "__loader__", None))
            return f"{path}: it is loaded by {loader.__module__}.{loader.__qualname__}"
    return ""


def _rank() -> int:
    return int(_load().rank_number())


def stop_states() -> list[StopState]:
    """Return the state of each stop that this process was started with, in their order."""
    return [_state_of(point) for point in POINTS]


def _state_of(point: Point) -> StopState:
    from dbg_wire.records.breakpoints import StopState
    from dbg_wire.records.record import fitted

    # An option and what was typed behind it.
    typed = str(point.stop).partition(" ")[2]
    line = point.line if isinstance(point.stop, StopAt) else None
    problem = COMPILED if point.is_compiled and not point.is_reached else ""
    if not point.is_placed:
        problem = point.problem
    if point.passed_by:
        problem = f"{PASSED_BY} {point.passed_by}"
    return fitted(StopState, stop=typed, line=line, armed=point.is_placed, hits=point.hits, problem=problem)
