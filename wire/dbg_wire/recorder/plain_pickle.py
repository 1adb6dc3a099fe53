"""A reader of pickles that can't run anything: it knows the operations that make plain values, and no others. Pure.

A pickle is a program, and the interpreter of the standard library can be asked for gigabytes by a few bytes. This one
makes texts, numbers, lists, tuples and dicts alone, and counts what it does. ``pickletools.genops`` would decode the
operand of an operation before that can be refused, such as a number of a million digits, and is no faster by itself.
"""

from __future__ import annotations

import struct
from typing import Any

from dbg_wire.errors import printable

MAX_OPERATIONS = 20_000_000
"""Operations of one pickle: a recorder takes some 70 for each of its entries, of which it mostly keeps 2000."""

MAX_CONTAINERS = 2_000_000
"""Lists, tuples and dicts of one pickle, of which an entry has ten: each takes some 64 bytes, for one in the pickle."""

MAX_PROTOCOL = 5
"""The protocol of pickles that is the newest one."""

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U16 = struct.Struct("<H")
_U64 = struct.Struct("<Q")
_F64 = struct.Struct(">d")

_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
_GETS = {ord("h"), ord("j")}
_PUTS = {ord("q"), ord("r"), 0x94}
_NUMBERS = {ord("J"): _I32, ord("M"): _U16, ord("G"): _F64}
_TEXT_LENGTHS = {ord("X"): _U32, 0x8D: _U64}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


class NotPlain(ValueError):
    """Say what a text of bytes is that is no pickle of plain values; the message is the end of a sentence."""


def load_plain(data: bytes) -> Any:
    """Return the value of a pickle of plain values. A value may be part of several others, as in any pickle.

    Raise NotPlain.
    """
    try:
        return _Machine(data).run()
    except (IndexError, struct.error):
        raise NotPlain("ends in the middle of a pickle") from None
    except (KeyError, AttributeError, TypeError, UnicodeDecodeError):
        raise NotPlain("is a damaged pickle") from None


class _Machine:
    """The stack machine of one pickle. Marks keep the stacks below them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0

    def run(self) -> Any:
        """Carry out the operations up to the end."""
        data, memo = self._data, self._memo
        for _ in range(MAX_OPERATIONS):
            code = data[self._at]
            self._at += 1
            # Nearly all operations are these; the rest goes through a table.
            if code == 0x68:  # BINGET
                self._stack.append(memo[data[self._at]])
                self._at += 1
            elif code == 0x4B:  # BININT1
                self._stack.append(data[self._at])
                self._at += 1
            elif code == 0x28:  # MARK
                self._below.append(self._stack)
                self._stack = []
            elif code == 0x5D:  # EMPTY_LIST
                self._stack.append(self._counted([]))
            elif code == 0x65:  # APPENDS
                items, self._stack = self._stack, self._below.pop()
                _list(self._stack[-1]).extend(items)
            elif code == 0x2E:  # STOP
                return self._stack.pop()
            else:
                self._other(code)
        raise NotPlain(f"is a pickle of more than {MAX_OPERATIONS:,} operations, which no flight recorder writes")

    def _other(self, code: int) -> None:
        if code in _CONSTANTS:
            self._stack.append(_CONSTANTS[code])
        elif code in _NUMBERS:
            self._stack.append(self._number(_NUMBERS[code]))
        elif code in _PUTS:
            self._memo[self._index(code)] = self._stack[-1]
        elif code in _GETS:
            self._stack.append(self._memo[self._index(code)])
        elif code in _TEXT_LENGTHS or code == 0x8C:
            length = self._byte() if code == 0x8C else self._number(_TEXT_LENGTHS[code])
            self._stack.append(self._bytes(length).decode("utf-8", "surrogatepass"))
        elif code == 0x8A:
            self._stack.append(int.from_bytes(self._bytes(self._byte()), "little", signed=True))
        elif code in (0x80, 0x95):
            self._header(code)
        else:
            self._contain(code)

    def _contain(self, code: int) -> None:
        """Carry out an operation on a container."""
        if code == ord("}"):
            self._stack.append(self._counted({}))
        elif code == ord("u"):
            items, self._stack = self._stack, self._below.pop()
            for at in range(0, len(items), 2):
                self._set(items[at], items[at + 1])
        elif code == ord("s"):
            value, key = self._stack.pop(), self._stack.pop()
            self._set(key, value)
        elif code == ord("a"):
            value = self._stack.pop()
            _list(self._stack[-1]).append(value)
        elif code in _TUPLES:
            count = _TUPLES[code]
            if len(self._stack) < count:
                raise NotPlain("is a damaged pickle")
            self._stack[-count:] = [self._counted(tuple(self._stack[-count:]))]
        elif code == ord("t"):
            items, self._stack = self._stack, self._below.pop()
            self._stack.append(self._counted(tuple(items)))
        elif code == ord(")"):
            self._stack.append(())
        else:
            raise NotPlain(_refusal(code, self._at - 1))

    def _counted(self, container: Any) -> Any:
        self._containers += 1
        if self._containers > MAX_CONTAINERS:
            raise NotPlain(f"is a pickle of more than {MAX_CONTAINERS:,} lists, which no flight recorder writes")
        return container

    def _set(self, key: Any, value: Any) -> None:
        # The hash of a tuple of tuples may take for ever.
        if type(key) not in (str, int):
            raise NotPlain("is a pickle with keys that no flight recorder writes")
        target = self._stack[-1]
        if type(target) is not dict:
            raise NotPlain("is a damaged pickle")
        target[key] = value

    def _header(self, code: int) -> None:
        if code == 0x95:
            # A frame only tells how much may be read at once.
            self._bytes(8)
        elif self._byte() > MAX_PROTOCOL:
            raise NotPlain("is a pickle of a protocol that is not known here")

    def _index(self, code: int) -> int:
        if code == 0x94:
            return len(self._memo)
        return self._byte() if code in (ord("h"), ord("q")) else int(self._number(_U32))

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _number(self, form: struct.Struct) -> Any:
        (number,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return number

    def _bytes(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise IndexError
        self._at += count
        return found


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise NotPlain("is a damaged pickle")
    return value


_RUNS_CODE = frozenset(b"cioRb\x81\x82\x83\x84\x92\x93PQ")
"""Operations that name classes and functions, call them, or let them set themselves up."""


def _refusal(code: int, at: int) -> str:
    if at == 0:
        return "is no pickle"
    if code in _RUNS_CODE:
        return "is a pickle that would run code, which no flight recorder writes; none of it was run"
    return f"has an operation that no flight recorder writes ({printable(repr(bytes([code])))} at byte {at})"
