"""Read variables and attributes of the program without running any code of the program.

No property, ``__getattr__``, ``__eq__`` or ``__repr__`` is called. A name whose value can't be had in this way is
UNKNOWN. The first part is for another thread than that whose frame is read, and the last part for the frame's own.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from types import FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final, final

from dbg_agent.frames.stacks import outward

WRITES_THROUGH = sys.version_info >= (3, 13)
"""Whether ``f_locals`` of a function writes to the frame itself; before that it is a copy that the frame keeps."""

SOLE_REFERENCES = 3
"""References to a copy that only its frame has: the frame's, our variable's and that of the call that counts."""

CO_OPTIMIZED = 1
"""The flag of functions' code, as in :mod:`inspect`."""


@final
class Unknown:
    """The class of UNKNOWN."""


UNKNOWN: Final = Unknown()
"""Stands for a value that can't be read."""

mro_of = type.__dict__["__mro__"].__get__
class_dict = type.__dict__["__dict__"].__get__


def local(frame: FrameType, name: str) -> Any:
    """Return a local or closed-over variable of a frame.

    Before Python 3.13, ``f_locals`` of a function is a snapshot that the frame keeps. It would keep tensors alive that
    the function deletes later, so its entries are removed, unless the program or a debugger has the snapshot as well.
    The frame of a thread that is traced must not be read in this way (see `is_traced`).
    """
    if not frame.f_code.co_flags & CO_OPTIMIZED:
        values = frame.f_locals
        # The body of a class may have any mapping.
        return values.get(name, UNKNOWN) if type(values) is dict else UNKNOWN
    try:
        # No name of ours for the snapshot: another reference would keep it from being emptied.
        value = frame.f_locals[name]
    except KeyError:
        value = UNKNOWN
    empty(frame)
    return value


def is_traced(frames: Sequence[FrameType]) -> bool:
    """Tell whether reading a variable of these frames of one thread could change one: before Python 3.13, if traced.

    After a call of a trace or profile function Python writes the snapshot back into the variables.
    """
    return not WRITES_THROUGH and any(frame.f_trace is not None or _is_tracer(frame) for frame in frames)


def is_traced_within(innermost: FrameType | None, outermost: FrameType) -> bool:
    """Tell the same of the frames from the innermost one to another one, whoever traces its callers."""
    return is_traced([*takewhile(lambda one: one is not outermost, outward(innermost)), outermost])


def _is_tracer(frame: FrameType) -> bool:
    code = frame.f_code
    return "event" in code.co_varnames[1 : min(code.co_argcount, 4)]


def variable(frame: FrameType, name: str) -> Any:
    """Return a global variable or builtin that a frame sees."""
    for values in (frame.f_globals, frame.f_builtins):
        if type(values) is dict and name in values:
            return values[name]
    return UNKNOWN


def is_a(value: object, kind: type) -> bool:
    """Tell whether a value is of a class or of one derived from it; `isinstance` would ask the value as well."""
    return any(base is kind for base in mro_of(type(value)))


def class_of(value: object) -> tuple[str, str]:
    """Return module and name of a value's class, whatever its metaclass; empty where they are no texts."""
    module = class_dict(type(value)).get("__module__")
    return (module if type(module) is str else "", type.__dict__["__name__"].__get__(type(value)))


def attributes(value: object) -> dict[str, Any]:
    """Return the instance dictionary of a value, empty if it has none that Python itself keeps."""
    for base in mro_of(type(value)):
        entry = class_dict(base).get("__dict__")
        if entry is None:
            continue
        if type(entry) in (GetSetDescriptorType, MemberDescriptorType):
            found = entry.__get__(value)
            return found if type(found) is dict else {}
        return {}
    return {}


def attribute(value: object, name: str) -> Any:
    """Return an attribute as it stands in the instance, its slots, its module or its class."""
    if is_a(value, type):
        return _plain(_in_class(value, name))
    in_class = _in_class(type(value), name)
    if type(in_class) is MemberDescriptorType and not is_a(value, ModuleType):
        try:
            return in_class.__get__(value)
        except AttributeError:
            return UNKNOWN
    if in_class is not UNKNOWN and has_method(in_class, "__set__"):
        return UNKNOWN
    found = attributes(value).get(name, UNKNOWN)
    return found if found is not UNKNOWN else _plain(in_class)


def method(value: object, name: str) -> Any:
    """Return the function of a value's class that is a method of it; UNKNOWN if it has none in Python."""
    found = _in_class(type(value), name)
    return found if type(found) is FunctionType else UNKNOWN


def _in_class(kind: Any, name: str) -> Any:
    for base in mro_of(kind):
        entries = class_dict(base)
        if name in entries:
            return entries[name]
    return UNKNOWN


def _plain(value: Any) -> Any:
    """Return a class's attribute, unless Python would call its ``__get__`` for an instance."""
    return UNKNOWN if has_method(value, "__get__") else value


def has_method(value: object, name: str) -> bool:
    """Tell whether a value's class has an attribute of its own or inherited, apart from ``__getattr__``."""
    return any(name in class_dict(base) for base in mro_of(type(value)))


def item(value: object, key: object) -> Any:
    """Return an item of a plain list, tuple or dictionary; its key is a plain text or number."""
    if type(key) not in (int, str):
        return UNKNOWN
    if type(value) is dict:
        return value.get(key, UNKNOWN)
    if type(value) in (list, tuple) and type(key) is int and -len(value) <= key < len(value):  # type: ignore[arg-type]
        return value[key]  # type: ignore[index]
    return UNKNOWN


# ---------------------------------------------------------------------------------- in the thread of the frame


def write_back(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Make ``values``, which are ``f_locals`` of a frame with what was assigned there, the frame's own.

    In the thread of the frame. What was deleted there stays. A debugger that has ``f_locals`` of the frame can assign
    there as before.
    """
    if WRITES_THROUGH:
        return
    assigned = dict(values)
    # Python 3.11 writes a copy back only once for each time that it was read, so it is read before and after.
    copy: Any = frame.f_locals
    copy.update(assigned)
    # 0 keeps variables that the copy lacks. To delete one is for Python 3.12 to assign None, with a warning.
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    frame.f_locals  # noqa: B018 - see above


def release(frames: Iterable[FrameType]) -> None:
    """Empty the copies of locals that these frames keep since somebody read them: they keep tensors alive.

    In the thread of the frames. A copy that the program or a debugger has as well stays. So does that of a frame whose
    trace or profile function runs just now, since Python writes it back afterwards.
    """
    if WRITES_THROUGH:
        return
    traced = _traced_now()
    for frame in frames:
        if frame.f_code.co_flags & CO_OPTIMIZED and id(frame) not in traced:
            empty(frame)


def read_locals(frame: FrameType) -> dict[str, Any]:
    """Return a copy of a frame's variables, and leave none with the frame; in the thread of the frame."""
    values = dict(frame.f_locals)
    release([frame])
    return values


def empty(frame: FrameType) -> None:
    """Empty the copy of locals that a function's frame keeps, unless the program or a debugger has it as well.

    Not for a frame of a thread that is traced: Python writes the copy back. Nothing happens from Python 3.13 on.
    """
    if WRITES_THROUGH:
        return
    copy: Any = frame.f_locals
    if type(copy) is dict and sys.getrefcount(copy) == SOLE_REFERENCES:
        code = frame.f_code
        # Names that `exec` has added are not the frame's variables; only the copy has them.
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            copy.pop(name, None)


def _traced_now() -> set[int]:
    """Return the ids of the frames for which a trace or profile function runs in this thread."""
    traced = set()
    for frame in outward(sys._getframe()):
        code = frame.f_code
        if "event" in code.co_varnames[: min(code.co_argcount, 4)] or sys.getprofile() is not None:
            traced.add(id(frame.f_back))
    return traced
