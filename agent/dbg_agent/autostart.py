"""The start of a process as a rank without a change to its code; called by a one-line file in site-packages.

``dbg-attach run`` sets ``DBG_AUTOSTART`` to its process id, a job script sets it to any word, and all processes of the
job inherit the variable. The rank is the outermost Python program that is not a launcher. The rank writes its claim
into the same variable: that it is the rank, and its place. The place is the run and the rank number that a launcher has
assigned. Programs that the rank starts are part of it, unless a launcher has assigned them another place. With
libraries such as Lightning the first rank starts the other ranks, and stays a rank. A program that only launches is
never a rank. If such a launcher assigns no places to its children, a script that it starts takes over the launcher's
place.

Breakpoints also work in a process that is not a rank, such as a helper or a child. The process connects when it reaches
a breakpoint. If no launcher has assigned it a place, it takes its parent's job, run and rank number from the variable.
A child that multiprocessing starts connects at its start, unless it is a worker of a library's pool. A Ray worker
connects when an actor starts in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dbg_agent.launch.claim import BY_LIBRARY, NO_PLACE, VARIABLE, JobPart, claim_in

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_TOOLS = frozenset(
    {
        *("pip", "pip3", "pipx", "ensurepip", "venv", "virtualenv", "build", "uv", "poetry", "conda", "mamba", "pdm"),
        *("hatch", "pre-commit", "pre_commit", "ruff", "black", "mypy", "dbg-broker", "dbg-attach", "dbg_broker"),
        *("compileall", "dbg_client", "multiprocessing"),
    }
)
"""Programs and modules that job scripts call and that are never ranks, including the commands of this project."""

_POOLS = (
    *("multiprocessing.", "concurrent.futures.", "joblib.", "loky."),
    *("torch.multiprocessing.pool", "torch.utils.data.", "torch._inductor."),
)
"""Prefixes of modules whose functions run in workers of pools and loaders. There may be many such workers, so they do
not connect at their start."""

_has_begun = False


def start() -> None:
    """Start this process's part in the job; never raise. Only the first call has an effect.

    The one-line file may be installed more than once, so this may be called again.

    The interpreter is still starting: neither ``__main__`` nor the path of the program's own modules exists yet.
    """
    global _has_begun  # noqa: PLW0603 - one per process
    if _has_begun:
        return
    _has_begun = True
    _unharmed(lambda: _start(os.environ))


def _unharmed(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception as error:
        from dbg_agent.process.log import write_stderr
        from dbg_wire.errors import error_line

        write_stderr(f"this process can't take part in the job ({error_line(error)}); continuing without a debugger")


def _start(environ: Mapping[str, str]) -> None:
    value = environ.get(VARIABLE, "")
    program = Program(sys.argv, sys.orig_argv)
    part = JobPart.HELPER
    # A helper that runs one line of code is recognised without looking up its place, because there may be many helpers.
    if program.is_script or _is_started_by(value, os.getppid()):
        from dbg_agent.launch.this_process import own_place, place_text

        place = own_place()
        part = part_of(value, place, program, pid=os.getpid(), parent=os.getppid(), environ=environ)
        if part is not JobPart.HELPER:
            os.environ[VARIABLE] = f"{part.value}:{os.getpid()}:{place_text(place)}"
    if "t" in sys.abiflags:
        # A Python without the GIL is not supported: the agent does not start, and in a rank `install` reports this.
        if part is JobPart.RANK:
            from dbg_agent import install

            install()
        return
    if part is not JobPart.LAUNCHER and any(map(environ.get, ("DBG_STOP_AT", "DBG_STOP_IN", "DBG_NUMBERS"))):
        _have_stops(program, is_rank=part is JobPart.RANK)
    if part is JobPart.HELPER and not program.is_tool:
        _redirect_stops(environ)
    if part is not JobPart.LAUNCHER and not program.is_tool:
        from dbg_agent.process.imports import when_loaded

        when_loaded("multiprocessing.util", _watch_children)
        when_loaded("multiprocessing.context", _watch_children)
        if program.is_ray_worker:
            when_loaded("ray._private.function_manager", _watch_actors)
    # `python -m dbg_agent` calls install itself, once it knows the program.
    if part is JobPart.RANK and program.module != "dbg_agent":
        from dbg_agent import install
        from dbg_agent.link.link import import_all

        install()
        import_all()


def _watch_children(module: ModuleType) -> None:
    """Make multiprocessing call :func:`_child_begins` in each child, including children of its fork server."""
    if module.__name__ == "multiprocessing.util":
        module.register_after_fork(sys.modules[__name__], _child_begins)
    else:
        # multiprocessing calls this method also in a spawned child, once the child knows its process object. The
        # original method does nothing there.
        module.SpawnProcess._after_fork = staticmethod(_child_begins)


def _child_begins(_: object = None) -> None:
    """Connect a child of multiprocessing before it runs its target, unless it works for a pool."""
    from multiprocessing import process, util

    child = process.current_process()
    target = getattr(child, "_target", None) or type(child)
    if str(getattr(target, "__module__", "")).startswith(_POOLS):
        return

    def connect() -> None:
        from dbg_agent import install
        from dbg_agent.program.own_rank import send_goodbye

        # A forked child ends without running atexit functions, so the goodbye is registered with multiprocessing.
        util.Finalize(None, send_goodbye, exitpriority=-1)
        install()

    _unharmed(connect)


def _watch_actors(manager: ModuleType) -> None:
    """Make Ray's worker connect before an actor starts in it; idle workers and task workers stay unconnected."""
    of_class = manager.FunctionActorManager
    load = of_class.load_actor_class

    def load_actor_class(self: object, job: object, descriptor: Any) -> object:
        _unharmed(lambda: _actor_begins(str(descriptor.class_name)))
        return load(self, job, descriptor)

    of_class.load_actor_class = load_actor_class


def _actor_begins(name: str) -> None:
    from dbg_agent import install
    from dbg_agent.rank import membership

    membership.actor_class = name
    install()


def _have_stops(program: Program, *, is_rank: bool) -> None:
    from dbg_agent import warn_and_continue
    from dbg_agent.breakpoints import startup_stops

    startup_stops.start(os.environ, is_rank=is_rank, load=_rank_of_process, failed=warn_and_continue)
    if sys.version_info < (3, 12):
        from dbg_agent.breakpoints import at_import
        from dbg_agent.program.script import ScriptLoader

        at_import.start(program.file, ScriptLoader)


def _rank_of_process() -> ModuleType:
    """Return the module that makes this process a rank; helpers that reach no breakpoint don't load it."""
    from dbg_agent.program import entry

    return entry


def _redirect_stops(environ: Mapping[str, str]) -> None:
    """Redirect breakpoints in a rank's child to the agent. pdb would end the child, whose stdin is not a terminal."""
    value = environ.get("DBG_CLASSIC")
    if value:
        from dbg_agent.settings import is_off

        if is_off(value):
            return
    from dbg_agent.program.stock_calls import redirect

    redirect()


class Program:
    """The program that an interpreter runs, as known at startup from ``argv`` and the whole command line."""

    def __init__(self, argv: Sequence[str], original: Sequence[str]) -> None:
        first = argv[0] if argv else ""
        self.argv = argv
        self.module: str | None = None
        self.file: str | None = None
        if first == "-m":
            from dbg_agent.launch.this_process import started_module

            self.module = started_module(argv, original)
        elif first not in ("", "-", "-c"):
            self.file = first
        name = (self.module or "").partition(".")[0] or first.rpartition("/")[2]
        self.is_ray_worker = "/ray/_private/workers/" in first
        # `pip3.11` counts as `pip`.
        self.is_tool = name in _TOOLS or name.rstrip("0123456789.") in _TOOLS

    @property
    def is_script(self) -> bool:
        """Whether the program is a file or a module, not a line of code or an interactive session."""
        return self.module is not None or self.file is not None


def part_of(value: str, place: str, program: Program, *, pid: int, parent: int, environ: Mapping[str, str]) -> JobPart:
    """Return a process's part in its job; pure.

    ``value`` is the value of ``DBG_AUTOSTART``; ``place`` is the place that launchers have given to this process.
    """
    from dbg_wire.launchers import is_launcher

    if program.is_ray_worker:
        # The variable contains the claim of Ray's driver process, which identifies the job of this Ray worker. A helper
        # does not overwrite it.
        return JobPart.HELPER
    if is_launcher(program.argv, program.module, environ):
        return JobPart.LAUNCHER
    if program.is_tool:
        return JobPart.HELPER
    claimant, claimed, claimed_place = claim_in(value)
    if claimant == pid or claimed is None:
        return JobPart.RANK if program.is_script or _is_started_by(value, parent) else JobPart.HELPER
    if not program.is_script:
        return JobPart.HELPER
    # A child is not a new rank if no launcher has assigned it a place, or if it inherits the place of a first rank
    # that has started the other ranks (Lightning).
    is_placed_anew = place not in (claimed_place, NO_PLACE) and not _is_of_first(claimed_place, place, environ)
    inherits = place == claimed_place and claimed is JobPart.LAUNCHER and claimant == parent
    return JobPart.RANK if is_placed_anew or inherits else JobPart.HELPER


def _is_of_first(claimed_place: str, place: str, environ: Mapping[str, str]) -> bool:
    """Return True if ``place`` belongs to a first rank that has become the launcher of the other ranks on its host."""
    return claimed_place == NO_PLACE and place.startswith(f"{BY_LIBRARY}/") and environ.get("LOCAL_RANK") == "0"


def _is_started_by(value: str, parent: int) -> bool:
    """Return True if the process that set the variable is this process's parent."""
    return value == str(parent)
