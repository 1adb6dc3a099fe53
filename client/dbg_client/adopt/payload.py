"""The code that an adopted process runs to become a rank, and the code's answer. Pure.

The code is one expression, so that it leaves no name in the program's ``__main__``. It catches every exception, because
an exception would surface in the middle of the program.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OURS = (
    "dbg_agent",
    "dbg_wire",
    "dbg_dial",
    "msgspec",
    "websockets",
    "pudb",
    "urwid",
    "urwid_readline",
    "pygments",
    "jedi",
    "parso",
)
"""Packages that a rank imports: our packages and their dependencies."""

_CODE = '''
def adopt(plan):
    import _thread, os, sys
    is_main = _thread.get_native_id() == os.getpid()
    mine = {"pid": os.getpid(), "main": is_main, "pipe": plan["pipe"]}
    marks = vars(sys)
    try:
        first = marks.setdefault("_dbg_adopts", mine)
        is_taken = first is not mine and first["pid"] == mine["pid"] and (first["main"] or not is_main)
        if is_taken and first["pipe"] == plan["pipe"]:
            return  # another call of this terminal, in this thread or in the main one, is running and will answer
        if not is_taken:
            marks["_dbg_adopts"] = mine
        adopt_now(plan, sys, os, is_main, is_taken)
    finally:
        if marks.get("_dbg_adopts") is mine:
            del marks["_dbg_adopts"]

def adopt_now(plan, sys, os, is_main, is_taken):
    answer = {"outcome": "failed", "main": is_main}
    try:
        if is_taken or is_busy(is_main, sys):
            answer["outcome"] = "busy"
        else:
            answer.update(join(plan, sys))
    except BaseException as error:
        answer["text"] = f"{type(error).__name__}: {error}"
    main = "main" if answer["main"] else ""
    line = "\\t".join((answer["outcome"], answer.get("key", ""), main, ascii(answer.get("text", ""))[1:-1][:3000]))
    try:
        pipe = os.open(plan["pipe"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # another of these calls has answered
    try:
        os.write(pipe, (line + "\\n").encode("ascii", "replace"))
    except OSError:
        pass
    finally:
        os.close(pipe)

def is_busy(is_main, sys):
    if not is_main and "threading" not in sys.modules and sys.version_info < (3, 13):
        return True  # because threading takes the first thread that imports it as the main thread
    import threading
    # A thread that starts or ends threads holds this lock, and would deadlock if it started one more here.
    is_locked = getattr(getattr(threading, "_active_limbo_lock", None), "locked", None)
    return is_locked is not None and is_locked()

def join(plan, sys):
    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        try:
            import dbg_agent
        except ModuleNotFoundError as error:
            if error.name != "dbg_agent" or not plan["folders"]:
                raise
            add_finder(plan, sys)
            import dbg_agent
        from dbg_agent.program.installing import become_rank
        return become_rank(plan["variables"], dbg_agent.install)
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)

def add_finder(plan, sys):
    from importlib.machinery import PathFinder
    class Finder:
        """Finder for a rank's packages that the program's own environment does not have."""
        @staticmethod
        def find_spec(name, path=None, target=None):
            return PathFinder.find_spec(name, plan["folders"]) if path is None and name in plan["ours"] else None
    sys.meta_path.append(Finder)
'''


class Outcome(enum.Enum):
    """Result of running the code."""

    ADOPTED = "adopted"
    ALREADY = "already"
    BUSY = "busy"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The code's answer; ``key`` is the key of the new rank, and ``text`` is the reason for a failure.

    ``main`` means that the rank can be interrupted. It is False until the code has run in the main thread.
    """

    outcome: Outcome
    key: str = ""
    text: str = ""
    main: bool = True


def code_to_adopt(pipe: str, variables: Mapping[str, str], folders: Sequence[str]) -> str:
    """Return the code that turns its process into a rank, and writes the code's answer into a named pipe.

    ``variables`` locate the broker. ``folders`` contain our packages, for a program whose environment does not have
    them. Only our packages are imported from ``folders``, and only if the program's own paths do not have them.
    """
    arguments = {"pipe": pipe, "variables": dict(variables), "folders": list(folders), "ours": list(OURS)}
    return as_expression(f"{_CODE}\nadopt({arguments!a})\n")


def as_expression(code: str) -> str:
    """Return one ASCII expression that runs the code in its own namespace."""
    return f"exec({code!a}, {{'__name__': 'dbg_adopted'}})\n"


def read_answer(line: str) -> Answer | None:
    """Parse a line from the pipe, or return None for an invalid line: the process is untrusted."""
    fields = line.split("\t")
    if len(fields) != 4 or fields[0] not in {outcome.value for outcome in Outcome}:
        return None
    outcome, key, main, text = fields
    return Answer(outcome=Outcome(outcome), key=key, text=text, main=main == "main")
