"""Make a rank of one process: look, bring the code in, read its answer.

Our package is brought along where the process's Python has none and is of our version.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

from dbg_client.adopt.checks import Ready, examine, fits_ours
from dbg_client.adopt.errors import CantAdopt, DebuggerFailed, NoSuchProcess
from dbg_client.adopt.inject import Injection, Pipe, can_remote_exec, run_remotely
from dbg_client.adopt.payload import OURS, Answer, Outcome, code_to_adopt
from dbg_client.adopt.process import PROC, ProcessInfo, read_process, system_call
from dbg_dial.endpoint import RENDEZVOUS_FILE
from dbg_dial.home import BROKER, HOME, TOKEN, TOKEN_FILE

PROBE_SECONDS = 20.0
"""Seconds for an interpreter to start and look for a package, on a file system of a network."""

_PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('dbg_agent') is None)"


def folders_of_ours() -> list[str]:
    """Return the folders in which the packages of a rank are found here, each once; none of them is imported."""
    found: dict[str, None] = {}
    for name in OURS:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found.update((str(Path(place).absolute().parent), None) for place in spec.submodule_search_locations)
        elif spec is not None and spec.origin:
            found[str(Path(spec.origin).absolute().parent)] = None
    return list(found)


def has_package(seen: ProcessInfo) -> bool:
    """Tell whether the interpreter of a process finds our package, by starting it once more as it was started."""
    first = seen.argv[0] if seen.argv else ""
    folder = PROC / str(seen.pid) / "cwd"
    for interpreter in dict.fromkeys((first, str(PROC / str(seen.pid) / "exe"))):
        if "python" not in interpreter.rpartition("/")[2] and not interpreter.startswith("/proc/"):
            continue
        try:
            command = [interpreter, "-c", _PROBE]
            ended = subprocess.run(
                command,
                env=seen.environ,
                cwd=folder,
                timeout=PROBE_SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if ended.returncode == 0:
            return True
    return False


def adopt_one(pid: int, variables: Mapping[str, str]) -> Answer:
    """Make a rank of a process, and return its answer. Blocks, for a few seconds as a rule.

    ``variables`` say where the broker is. Raises CantAdopt if the process was left as it is, and DebuggerFailed.
    """
    ready = examine(pid)
    _refuse_secrets(ready.seen, variables)
    folders = folders_of_ours() if fits_ours(ready.python) else []
    if not folders and not has_package(ready.seen):
        version = ".".join(map(str, ready.python.version or ()))
        why = f"runs Python {version}, for which our package is installed neither there nor here"
        remedy = "install dbg-broker with that Python, also while the process runs, and try again"
        raise CantAdopt(f"process {pid}", why, remedy)
    try:
        folder = tempfile.mkdtemp(prefix="dbg-adopt-")
    except OSError as error:
        why = f"has no way to answer, since no directory can be made for that ({error.strerror})"
        raise CantAdopt(f"process {pid}", why, "set TMPDIR to another directory") from None
    try:
        with closing(Pipe(folder)) as pipe:
            answer = _run(ready, folder, code_to_adopt(pipe.path, variables, folders), pipe)
    except DebuggerFailed:
        if read_process(pid) is None:
            raise NoSuchProcess(f"process {pid}", "has ended meanwhile", "name those that are left") from None
        raise
    finally:
        with suppress(OSError):  # a file that the process is still to run stays
            Path(folder).rmdir()
    if answer.outcome is Outcome.FAILED:
        remedy = "the program goes on as it was; try again, or install dbg-broker in its environment"
        raise CantAdopt(f"process {pid}", f"could not become a rank ({answer.text or 'no reason given'})", remedy)
    return answer


def _refuse_secrets(seen: ProcessInfo, variables: Mapping[str, str]) -> None:
    """Refuse a process that could not learn how to reach the broker, and so would try for ever."""
    home = variables.get(HOME)
    has_home = home is not None and (Path(home) / RENDEZVOUS_FILE).exists()
    # A home without an address beside it may get its broker later, and the process its token then.
    has_token = has_home or (home is not None and BROKER not in variables)
    if not has_token and TOKEN_FILE not in variables and not any(map(seen.environ.get, (TOKEN, TOKEN_FILE))):
        why = "would have no token for the broker, since a terminal's own is none for ranks"
        remedy = f"set {HOME} to the broker's home, or start the program with a {TOKEN_FILE} for ranks"
        raise CantAdopt(f"process {seen.pid}", why, remedy)


def _run(ready: Ready, folder: str, code: str, pipe: Pipe) -> Answer:
    pid = ready.seen.pid
    why = "does not come back to Python code, which it would have to run itself"
    # Only gdb reaches a main thread that sleeps in a system call: it looks at no file before it wakes up.
    if can_remote_exec(ready.python.version) and (ready.gdb is None or system_call(pid, pid) is None):
        try:
            answer = run_remotely(pid, folder, code, pipe.answer)
        except (OSError, RuntimeError) as error:
            answer, why = None, f"runs no file for others ({error})"
        if answer is not None and answer.outcome is not Outcome.BUSY:
            return answer
    if ready.gdb is None:
        raise CantAdopt(f"process {pid}", why, "install gdb, and try again")
    return Injection(ready.gdb, pid, ready.python, code, pipe.answer).run()
