"""Run a script or module as a rank, without a change to its code: ``python -m dbg_agent train.py ARGS…``."""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, TracebackType

USAGE = """\
usage: python -m dbg_agent [--broker ADDRESS] [--connect-timeout S] [--on-missing go-on|wait|raise]
                           [--post-mortem] [--lease S] [--collective-timeout S] SCRIPT [ARG…]
       python -m dbg_agent [options] -m MODULE [ARG…]

Run SCRIPT or MODULE as `python` would, listed at the broker from the start; `breakpoint()` and `set_trace()` stop it,
and so does `dbg-attach interrupt`. With --post-mortem it is kept for --lease seconds (600) after an uncaught exception.
With --collective-timeout process groups of torch wait so many seconds for a stopped rank.
"""

OWN_MODULES = (__name__, "runpy")

OPTIONS = {
    "--broker": "broker",
    "--connect-timeout": "connect_timeout",
    "--on-missing": "on_missing",
    "--lease": "lease",
    "--collective-timeout": "collective_timeout",
}

FLAGS = {"--post-mortem": "post_mortem"}


class _UsageError(Exception):
    pass


def _parse(arguments: list[str]) -> tuple[dict[str, object], bool, list[str]]:
    """Return the agent's own options, whether the program is a module, and the program's command line.

    argparse is not used: everything from the script's name on belongs to the script, even if it looks like an option of
    the agent.
    """
    options: dict[str, object] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        name, equals, value = rest.pop(0).partition("=")
        if name in ("-h", "--help"):
            sys.stdout.write(USAGE)
            raise SystemExit(0)
        if name in FLAGS and not equals:
            options[FLAGS[name]] = True
            continue
        if name not in OPTIONS:
            raise _UsageError(f"there is no option {name!r}")
        if not equals:
            if not rest:
                raise _UsageError(f"{name} needs a value")
            value = rest.pop(0)
        options[OPTIONS[name]] = value
    is_module = bool(rest) and rest[0] == "-m"
    if is_module:
        rest.pop(0)
    if not rest:
        raise _UsageError("the name of a module is missing" if is_module else "the name of a script is missing")
    return options, is_module, rest


def main(arguments: list[str]) -> None:
    """Run the program; the process ends as it would have ended without the agent."""
    try:
        options, is_module, program = _parse(arguments)
    except _UsageError as error:
        sys.stderr.write(f"dbg_agent: {error}; see `python -m dbg_agent --help`\n")
        raise SystemExit(2) from None
    if not is_module and not os.path.isfile(program[0]):  # noqa: PTH113 - pathlib would be loaded into every rank
        sys.stderr.write(f"dbg_agent: there is no script {program[0]!r}; name one, or a module with -m\n")
        raise SystemExit(2)
    sys.argv[:] = program
    if not _is_path_safe():
        # `python -m dbg_agent` has put the current directory at the start of `sys.path`; a script needs its own folder
        # there.
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(program[0]))  # noqa: PTH109, PTH120
    _run(program[0], is_module, options)


class ScriptLoader:
    """A loader for the script of this process; the interpreter uses it as if the script were a folder's ``__main__``.

    When the interpreter requests the script's code, the loader runs the script itself and then returns empty code for
    the interpreter to run. Only in this way can the agent compile the script. The code that installs the loader has
    already decided whether this process is a rank.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._main = sys.modules["__main__"]

    def get_code(self, name: str) -> CodeType:
        """Run the script and return an empty code; raise SystemExit if the script ends by an exception."""
        # The interpreter has removed the module `__main__`, because it expects a new one from this loader.
        sys.modules[name] = self._main
        if sys.path[:1] == [self._path]:
            sys.path[:1] = [] if _is_path_safe() else [os.path.dirname(os.path.realpath(self._path))]  # noqa: PTH120
        _run(self._path, False, None)
        return compile("", self._path, "exec", dont_inherit=True)


def _is_path_safe() -> bool:
    """Return True if the option -I or -P forbids adding a folder at the start of ``sys.path``."""
    return bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def _run(name: str, is_module: bool, options: dict[str, object] | None) -> None:
    import runpy

    from dbg_agent.program.own_rank import note_exit

    try:
        if is_module:
            _install(options or {})
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            _run_script(name, options)
    except SystemExit as leaving:
        note_exit(_status(leaving.code))
        raise
    except KeyboardInterrupt:
        note_exit(130)
        raise
    except BaseException as error:
        note_exit(1)
        # The traceback is shown without frames of the agent and runpy, as if the program had been started without the
        # agent.
        error.__traceback__ = _of_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
    else:
        note_exit(0)


def _install(options: dict[str, object]) -> None:
    """Make this process a rank, and set variables that give its children their rank and the broker."""
    from dbg_agent.launch.this_process import claim
    from dbg_agent.link.link import import_all
    from dbg_agent.process.imports import loaded
    from dbg_agent.program.installing import install_here
    from dbg_agent.program.own_rank import current

    install_here(options, ())
    if current() is None:
        return
    if loaded("dbg_agent.program.stock_calls") is None:
        os.environ["DBG_CLASSIC"] = "0"
    for name, value in options.items():
        os.environ[f"DBG_{name.upper()}"] = "1" if value is True else str(value)
    claim()
    import_all()


def _run_script(name: str, options: dict[str, object] | None) -> None:
    """Run a script in the real ``__main__``: pickling and spawned children look up that module."""
    import __main__

    path = name if os.path.isabs(name) else os.path.abspath(name)  # noqa: PTH100, PTH117
    with open(path, "rb") as file:  # noqa: PTH123
        source = file.read()
    try:
        code = _compiled(source, path)
    except (SyntaxError, ValueError) as error:
        # The error is printed without a stack, as the interpreter prints it for a script with invalid syntax.
        raise error.with_traceback(None) from None
    namespace = __main__.__dict__
    for key in [key for key in namespace if not key.startswith("__")]:
        del namespace[key]
    namespace.update({"__name__": "__main__", "__file__": path, "__spec__": None, "__package__": None, "__doc__": None})
    namespace["__loader__"] = SourceFileLoader("__main__", path)
    if sys.version_info < (3, 15):
        namespace["__cached__"] = None
    if options is not None:
        _install(options)
    exec(code, namespace)  # noqa: S102 - the user's script


def _compiled(source: bytes, path: str) -> CodeType:
    """Return the script's code, including the breakpoints that the job was started with."""
    from dbg_agent.process.imports import loaded

    # The module is loaded only if the job has breakpoints from its start and Python is older than 3.12.
    at_import = loaded("dbg_agent.breakpoints.at_import")
    if at_import is None:
        return compile(source, path, "exec", dont_inherit=True)
    code: CodeType = at_import.compile_file(source, path, "__main__")
    return code


def _status(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def _of_program(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the program's first frame on; None if the program had not started."""
    walk = traceback
    while walk is not None and walk.tb_frame.f_globals.get("__name__") in OWN_MODULES:
        walk = walk.tb_next
    return walk
