"""Which method a frame is calling now, on what, and with which arguments: from its code, without running any.

A function written in C has no frame, so its name and arguments are in the caller's instructions alone.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from dbg_agent.evidence.variables import UNKNOWN, attribute, local, variable

_LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_CALLS = ("CALL", "CALL_METHOD", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_KW")

_PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}


@dataclass(frozen=True)
class CallSite:
    """A call of a method: the object, the method's name, and the arguments, each UNKNOWN where it can't be read."""

    target: Any
    method: str
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)

    def argument(self, position: int, name: str, default: Any = UNKNOWN) -> Any:
        """Return an argument by its name or its place, ``default`` if it was not given, UNKNOWN if it can't be read."""
        if name in self.named:
            return self.named[name]
        return self.positional[position] if position < len(self.positional) else default


@dataclass(frozen=True)
class _Step:
    """One instruction, and how many values it leaves on the stack beyond those it takes."""

    name: str
    arg: int | None
    value: Any
    pushed: int


def call_site(frame: FrameType) -> CallSite | None:
    """Return the call of a method that a frame is in, None if it is in none or has a form that is not known."""
    steps = [step for one in dis.get_instructions(frame.f_code) if one.offset <= frame.f_lasti for step in _steps(one)]
    if not steps or steps[-1].name not in _CALLS:
        return None
    try:
        return _Reader(frame, steps).read()
    except (IndexError, ValueError, TypeError):
        return None


def _steps(one: dis.Instruction) -> Iterator[_Step]:
    if one.opname in _PAIRS:
        # Python 3.13 joins two instructions for local variables into one.
        for name, value in zip(_PAIRS[one.opname], one.argval, strict=True):
            yield _Step(name, None, value, -1 if name == "STORE_FAST" else 1)
        return
    arg = one.arg if one.opcode >= dis.HAVE_ARGUMENT else None
    yield _Step(one.opname, one.arg, one.argval, dis.stack_effect(one.opcode, arg, jump=False))


class _Reader:
    """The instructions up to a call, read from the call backwards."""

    def __init__(self, frame: FrameType, steps: Sequence[_Step]) -> None:
        self._frame = frame
        self._code = steps
        self._at = len(steps) - 1

    def read(self) -> CallSite | None:
        call = self._code[self._at]
        self._at -= 1
        names = self._keywords(call)
        values = [self._value() for _ in range(call.arg or 0)]
        values.reverse()
        if self._peek().name == "PUSH_NULL":
            self._at -= 1
        method = self._peek()
        if method.name not in _ATTRIBUTES:
            return None
        self._at -= 1
        target = self._value()
        split = len(values) - len(names)
        return CallSite(target, str(method.value), tuple(values[:split]), dict(zip(names, values[split:], strict=True)))

    def _peek(self) -> _Step:
        if self._at < 0:
            raise IndexError
        return self._code[self._at]

    def _keywords(self, call: _Step) -> tuple[str, ...]:
        """Skip what stands between the arguments and the call, and return the names of the last arguments."""
        if call.name in ("CALL_KW", "CALL_FUNCTION_KW"):
            names = self._peek().value
            self._at -= 1
            return tuple(names)
        names = ()
        while self._peek().name in ("PRECALL", "KW_NAMES", "EXTENDED_ARG", "CACHE"):
            if self._peek().name == "KW_NAMES":
                names = self._frame.f_code.co_consts[self._peek().arg or 0]
            self._at -= 1
        return tuple(names)

    def _value(self) -> Any:
        """Return the value that the instructions before here have pushed, and step back over them."""
        end = self._at
        pushed = 0
        while True:
            one = self._peek()
            pushed += one.pushed
            self._at -= 1
            if pushed >= 1:
                return self._evaluated(self._code[self._at + 1 : end + 1])

    def _evaluated(self, code: Sequence[_Step]) -> Any:
        code = [one for one in code if one.name not in ("EXTENDED_ARG", "CACHE", "NOP")]
        first = code[0]
        if len(code) == 1 and first.name.startswith(_CONSTANTS):
            return first.value
        if not first.name.startswith(_LOADS):
            return UNKNOWN
        value = self._name(str(first.value))
        for one in code[1:]:
            if one.name not in _ATTRIBUTES or value is UNKNOWN:
                return UNKNOWN
            value = attribute(value, str(one.value))
        return value

    def _name(self, name: str) -> Any:
        value = local(self._frame, name)
        return variable(self._frame, name) if value is UNKNOWN else value
