"""Readers of the program's variables and attributes that run no code of the program.

No property, ``__getattr__``, ``__eq__`` or ``__repr__`` is called. A value that can't be read in this way is UNKNOWN.
The functions in the first part are called from other threads than the frame's. Those in the last part are called in the
frame's own thread.
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
"""Whether an assignment in a function's ``f_locals`` changes the variable. Before 3.13, ``f_locals`` is a copy."""

SOLE_REFERENCES = 3
"""Reference count of a copy that only its frame uses: one each for the frame, our variable and getrefcount()."""

CO_OPTIMIZED = 1
"""Flag of the code of functions, as in :mod:`inspect`."""


@final
class Unknown:
    """The class of UNKNOWN."""


UNKNOWN: Final = Unknown()
"""Result of a reader for a value that can't be read."""

mro_of = type.__dict__["__mro__"].__get__
class_dict = type.__dict__["__dict__"].__get__


def local(frame: FrameType, name: str) -> Any:
    """Return a local or closed-over variable of a frame.

    Before Python 3.13, ``f_locals`` of a function is a snapshot that the frame keeps. It would keep tensors alive that
    the function deletes later, so its entries are removed, unless the program or a debugger also has the snapshot.
    Don't call it for a frame of a traced thread (see `is_traced`).
    """
    if not frame.f_code.co_flags & CO_OPTIMIZED:
        values = frame.f_locals
        # The body of a class may run in any mapping, whose methods may be code of the program.
        return values.get(name, UNKNOWN) if type(values) is dict else UNKNOWN
    try:
        # Don't bind the snapshot to a name: another reference would keep it from being emptied.
        value = frame.f_locals[name]
    except KeyError:
        value = UNKNOWN
    empty(frame)
    return value


def is_traced(frames: Sequence[FrameType]) -> bool:
    """Return True if reading a variable of these frames, which are of one thread, could change the variable.

    Before Python 3.13 this is so if one of the frames is traced: after each call of a trace or profile function, Python
    writes the snapshot ``f_locals`` back into the variables.
    """
    return not WRITES_THROUGH and any(frame.f_trace is not None or _is_tracer(frame) for frame in frames)


def is_traced_within(innermost: FrameType | None, outermost: FrameType) -> bool:
    """Return the result of :func:`is_traced` for the frames from ``innermost`` to ``outermost`` only."""
    return is_traced([*takewhile(lambda one: one is not outermost, outward(innermost)), outermost])


def _is_tracer(frame: FrameType) -> bool:
    code = frame.f_code
    return "event" in code.co_varnames[1 : min(code.co_argcount, 4)]


def variable(frame: FrameType, name: str) -> Any:
    """Return the global variable or builtin of this name in the frame."""
    for values in (frame.f_globals, frame.f_builtins):
        if type(values) is dict and name in values:
            return values[name]
    return UNKNOWN


def is_a(value: object, kind: type) -> bool:
    """Return True if the value's type is ``kind`` or a subclass. `isinstance` would also read ``__class__``."""
    return any(base is kind for base in mro_of(type(value)))


def class_of(value: object) -> tuple[str, str]:
    """Return module and name of the value's class, for any metaclass; the module is empty if it is not a string."""
    module = class_dict(type(value)).get("__module__")
    return (module if type(module) is str else "", type.__dict__["__name__"].__get__(type(value)))


def attributes(value: object) -> dict[str, Any]:
    """Return the instance dictionary of a value; empty if it has none or a class redefines ``__dict__``."""
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
    """Return an attribute from the instance, its slots, its module or its class, without calling descriptors."""
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
    """Return the Python function that implements a method of the value; UNKNOWN if there is none."""
    found = _in_class(type(value), name)
    return found if type(found) is FunctionType else UNKNOWN


def _in_class(kind: Any, name: str) -> Any:
    for base in mro_of(kind):
        entries = class_dict(base)
        if name in entries:
            return entries[name]
    return UNKNOWN


def _plain(value: Any) -> Any:
    """Return the attribute of a class, or UNKNOWN if Python would call its ``__get__``."""
    return UNKNOWN if has_method(value, "__get__") else value


def has_method(value: object, name: str) -> bool:
    """Return True if the value's class has or inherits this attribute; ``__getattr__`` is not called."""
    return any(name in class_dict(base) for base in mro_of(type(value)))


def item(value: object, key: object) -> Any:
    """Return an item of a plain list, tuple or dictionary by a plain string or integer key, else UNKNOWN."""
    if type(key) not in (int, str):
        return UNKNOWN
    if type(value) is dict:
        return value.get(key, UNKNOWN)
    if type(value) in (list, tuple) and type(key) is int and -len(value) <= key < len(value):  # type: ignore[arg-type]
        return value[key]  # type: ignore[index]
    return UNKNOWN


# ---------------------------------------------------------------------------------- in the thread of the frame


def write_back(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Write ``values``, a frame's ``f_locals`` with assignments, to the frame's variables.

    Call it in the frame's thread. Deletions in ``values`` have no effect. A debugger that has the frame's ``f_locals``
    can still assign variables with it afterwards.
    """
    if WRITES_THROUGH:
        return
    assigned = dict(values)
    # Python 3.11 writes a copy back only if the copy was read since the last write. So the copy is read before this
    # write. The copy is read again after this write, because a debugger may make the next write.
    copy: Any = frame.f_locals
    copy.update(assigned)
    # The argument 0 keeps variables that the copy lacks. With 1, Python 3.12 would assign None to them, with a warning.
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    frame.f_locals  # noqa: B018 - see above


def release(frames: Iterable[FrameType]) -> None:
    """Empty the copies of locals that these frames keep after they were read, because copies keep tensors alive.

    Call it in the frames' thread. A copy that the program or a debugger also has is kept. The copy of a frame
    whose trace or profile function is running is kept, too, because Python writes this copy back afterwards.
    """
    if WRITES_THROUGH:
        return
    traced = _traced_now()
    for frame in frames:
        if frame.f_code.co_flags & CO_OPTIMIZED and id(frame) not in traced:
            empty(frame)


def read_locals(frame: FrameType) -> dict[str, Any]:
    """Return a copy of a frame's variables, without leaving one in the frame. Call it in the frame's thread."""
    values = dict(frame.f_locals)
    release([frame])
    return values


def empty(frame: FrameType) -> None:
    """Empty the copy of locals that a function's frame keeps, unless the program or a debugger also has it.

    Don't call it for a frame of a traced thread, because Python writes the copy back. It does nothing from Python 3.13
    on.
    """
    if WRITES_THROUGH:
        return
    copy: Any = frame.f_locals
    if type(copy) is dict and sys.getrefcount(copy) == SOLE_REFERENCES:
        code = frame.f_code
        # Names that `exec` added stay: they are not variables of the frame, so only the copy has them.
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            copy.pop(name, None)


def _traced_now() -> set[int]:
    """Return the ids of the frames whose trace or profile function is running in this thread."""
    traced = set()
    for frame in outward(sys._getframe()):
        code = frame.f_code
        if "event" in code.co_varnames[: min(code.co_argcount, 4)] or sys.getprofile() is not None:
            traced.add(id(frame.f_back))
    return traced
