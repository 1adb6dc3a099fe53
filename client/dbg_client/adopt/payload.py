"""The code that runs in a process to make it a rank, and what it answers. Pure.

The code is one expression, so that it leaves no name in the program's ``__main__``, and it catches everything: what it
raised would come out in the midst of the program.
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
"""What a rank imports of ours, or of others for us."""

_CODE = '''
def adopt(told):
    import _thread, os, sys
    is_main = _thread.get_native_id() == os.getpid()
    mine = {"pid": os.getpid(), "main": is_main, "pipe": told["pipe"]}
    marks = vars(sys)
    try:
        first = marks.setdefault("_dbg_adopts", mine)
        is_taken = first is not mine and first["pid"] == mine["pid"] and (first["main"] or not is_main)
        if is_taken and first["pipe"] == told["pipe"]:
            return  # a call of the same terminal runs already, in this thread or in the main one, and answers
        if not is_taken:
            marks["_dbg_adopts"] = mine
        adopt_now(told, sys, os, is_main, is_taken)
    finally:
        if marks.get("_dbg_adopts") is mine:
            del marks["_dbg_adopts"]

def adopt_now(told, sys, os, is_main, is_taken):
    said = {"outcome": "failed", "main": is_main}
    try:
        if is_taken or is_busy(is_main, sys):
            said["outcome"] = "busy"
        else:
            said.update(join(told, sys))
    except BaseException as error:
        said["text"] = f"{type(error).__name__}: {error}"
    main = "main" if said["main"] else ""
    line = "\\t".join((said["outcome"], said.get("key", ""), main, ascii(said.get("text", ""))[1:-1][:3000]))
    try:
        pipe = os.open(told["pipe"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # another one of these calls has answered
    try:
        os.write(pipe, (line + "\\n").encode("ascii", "replace"))
    except OSError:
        pass
    finally:
        os.close(pipe)

def is_busy(is_main, sys):
    if not is_main and "threading" not in sys.modules and sys.version_info < (3, 13):
        return True  # threading takes the thread that imports it first for the main thread
    import threading
    # A thread that starts or ends others has this lock, and would wait for itself in the start of one more.
    is_locked = getattr(getattr(threading, "_active_limbo_lock", None), "locked", None)
    return is_locked is not None and is_locked()

def join(told, sys):
    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        try:
            import dbg_agent
        except ModuleNotFoundError as error:
            if error.name != "dbg_agent" or not told["folders"]:
                raise
            add_finder(told, sys)
            import dbg_agent
        from dbg_agent.program.installing import become_rank
        return become_rank(told["variables"], dbg_agent.install)
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)

def add_finder(told, sys):
    from importlib.machinery import PathFinder
    class Finder:
        """Finds what a rank needs of dbg-broker where the program's own environment lacks it."""
        @staticmethod
        def find_spec(name, path=None, target=None):
            return PathFinder.find_spec(name, told["folders"]) if path is None and name in told["ours"] else None
    sys.meta_path.append(Finder)
'''


class Outcome(enum.Enum):
    """What came of the code."""

    ADOPTED = "adopted"
    ALREADY = "already"
    BUSY = "busy"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the code answers; ``key`` is the rank's, ``text`` says why it failed, ``main`` whether it ran in the main
    thread, without which nobody can break into the rank."""

    outcome: Outcome
    key: str = ""
    text: str = ""
    main: bool = True


def code_to_adopt(pipe: str, variables: Mapping[str, str], folders: Sequence[str]) -> str:
    """Return the code that makes its process a rank and answers into a named pipe.

    ``variables`` say where the broker is. ``folders`` hold our packages, for a program whose environment lacks them;
    only names of ours are looked for there, and after all of the program's own places.
    """
    told = {"pipe": pipe, "variables": dict(variables), "folders": list(folders), "ours": list(OURS)}
    return as_expression(f"{_CODE}\nadopt({told!a})\n")


def as_expression(code: str) -> str:
    """Return one expression of ASCII that runs the code with names of its own."""
    return f"exec({code!a}, {{'__name__': 'dbg_adopted'}})\n"


def read_answer(line: str) -> Answer | None:
    """Return what a line of the pipe says, None for one that is no answer: the process may be of anybody's making."""
    words = line.split("\t")
    if len(words) != 4 or words[0] not in {outcome.value for outcome in Outcome}:
        return None
    outcome, key, main, text = words
    return Answer(outcome=Outcome(outcome), key=key, text=text, main=main == "main")
