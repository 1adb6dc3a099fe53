"""A rank's description of a value: a text for users, and digests of the whole value for comparing ranks."""

from __future__ import annotations

import dataclasses
import re
import sys
from _thread import RLock, allocate_lock
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from types import (
    ModuleType,
)
from typing import Any

from dbg_agent.values.arrays import is_array, write_array
from dbg_agent.values.children import (
    INSIDE,
    VIEWS,
    Container,
    attributes_of,
    container_of,
    field_names,
    has_hidden_state,
    hides_content,
    is_container,
    name_of,
)
from dbg_agent.values.record import (
    HEAD,
    MAX_REASON,
    DigestBudget,
    NoFingerprint,
    NotCompared,
    OutOfTime,
    Unordered,
    ValueRecord,
    ValueText,
    message_of,
    sentence_of,
    without_addresses,
)
from dbg_agent.values.tensors import is_tensor, write_tensor

MAX_DEPTH = 100
"""Maximum depth of nested containers that are read: more than users look at, and far below the recursion limit."""

LONG_STRING = 16_384
"""Length of a string or buffer, in characters or bytes, above which only its two ends are turned into a literal. It is
several times the length that is shown."""

LONG_INT_BITS = 10_000
"""Number of bits above which an int is written in hexadecimal: Python refuses to write very long ints in decimal."""

MAX_OBJECTS = 10_000
"""Maximum number of objects whose attributes are read for one value; 10,000 take about a second. An object counts again
on each path that leads to it. So a graph of few objects can reach the limit, because it has far more paths."""

RUN = 1024
"""Number of elements that one call of ``repr`` writes if all are numbers. A list of ten million numbers then takes
seconds; with one call for each number it would take half a minute."""

ATOMS: frozenset[type] = frozenset({int, float, complex, bool, type(None)})
SIMPLE: frozenset[type] = ATOMS | {str}
BYTES: frozenset[type] = frozenset({bytes, bytearray, memoryview})


PLAIN: frozenset[type] = frozenset({dict, list, tuple, set, frozenset, deque})

SHOWN: tuple[type, ...] = (type, ModuleType, type(allocate_lock()), RLock)
"""Classes of objects that are compared by their repr alone, without the memory addresses in it."""


ROUNDED = re.compile(r"\.\.\.|…|\b(?:tensor|array)\(|\) at 0x")
"""Signs that a repr omits elements or a random generator's state, or rounds the numbers of a tensor or an array."""


class Walk(ValueRecord):
    """The record of one value, made part by part within the budget ``effort``.

    :meth:`value` raises NotCompared, or the error that Python raises if another thread changes a container while its
    elements are read. Text and fingerprint are then unfinished.
    """

    def __init__(self, effort: DigestBudget) -> None:
        super().__init__(effort)
        self._path: dict[int, int] = {}
        self._objects = 0
        self._bases: dict[type, type | None] = {}

    def whole(self, value: Any) -> bool:
        """Walk through a value as :meth:`value` does; if that fails, return False and set the reason in ``effort``."""
        try:
            self.value(value)
        except NotCompared as error:
            self.effort.stop_digest(error.reason)
        except Exception as error:
            self.effort.stop_digest(sentence_of(error))
        else:
            return True
        return False

    def value(self, value: Any) -> None:
        """Walk through a value and everything in it."""
        self.effort.check()
        kind = type(value)
        # isinstance() would ask the value for its class, and a proxy would answer with the class of its target.
        if kind in ATOMS:
            self._leaf(kind, _number(value))
        elif kind is str:
            self._string(value)
        elif kind in BYTES or _is_plain_array(kind):
            self._bytes(value, kind)
        elif is_tensor(kind):
            self.attempt(lambda: write_tensor(self, value))
        elif is_array(kind):
            self.attempt(lambda: write_array(self, value))
        elif _is_container(kind):
            self._container(value, kind)
        else:
            self._object(value, kind)

    # ------------------------------------------------------------------------------------------------ single values

    def _leaf(self, kind: type, text: str) -> None:
        self.text.write(text)
        self.fingerprint.feed_text(kind.__qualname__, text)

    def _string(self, value: str) -> None:
        if len(value) > LONG_STRING:
            self.text.write_ends(value)
        else:
            self.text.write(repr(value))
        self.attempt(lambda: self._compare_string(value))

    def _compare_string(self, value: str) -> None:
        self.effort.count(len(value))
        self.fingerprint.feed_text("str", value)

    def _bytes(self, value: Any, kind: type) -> None:
        with memoryview(value) as view:
            size, form = view.nbytes, f"{kind.__name__} {view.format} {view.shape}"
        if kind is memoryview:
            self.text.write(
                f"memoryview({value.tobytes()!r})" if size <= LONG_STRING else f"<memoryview of {size:,} bytes>"
            )
        elif len(value) > LONG_STRING:
            self.text.write_ends(value)
        else:
            self.text.write(repr(value))
        self.attempt(lambda: self._compare_bytes(value, form, size))

    def _compare_bytes(self, value: Any, form: str, size: int) -> None:
        self.effort.count(size)
        if not self.compares:
            return
        # A copy is hashed, because a buffer can't be resized while it is hashed. A thread of the program that resized
        # the buffer would get an error.
        data = value if isinstance(value, bytes) else bytes(value) if isinstance(value, bytearray) else value.tobytes()
        self.fingerprint.feed_text("bytes", form)
        self.fingerprint.feed(data)

    def _object(self, value: object, kind: type) -> None:
        try:
            text = str.__str__(repr(value))
        except Exception as error:
            failed, message = type(error).__name__, message_of(error)
            self.text.write(f"<{name_of(kind)}: repr raised {failed}: {message[:MAX_REASON]}>")
            self.fingerprint.feed_repr("error", f"{_identity(kind)} {failed} {message}")
            return
        self.text.write(text)
        base = self._base_of(kind)
        self.attempt(lambda: self._compare_by_repr(kind, text, is_whole=base is None))
        if base is not None:
            self.attempt(lambda: self._compare_inside(value, base))
        elif hides_content(kind) or (not issubclass(kind, SHOWN) and without_addresses(text) != text):
            self.attempt(lambda: self._compare_attributes(value, kind))

    def _compare_by_repr(self, kind: type, text: str, *, is_whole: bool) -> None:
        self.effort.count(len(text))
        # The repr of an object that can be converted to an array, such as a table, shows only some elements, with few
        # digits.
        if is_whole and (hasattr(kind, "__array__") or ROUNDED.search(text)):
            raise NotCompared(f"the repr of {name_of(kind)} may omit or round the difference")
        self.fingerprint.feed_repr(_identity(kind), text)

    def _compare_attributes(self, value: object, kind: type) -> None:
        if has_hidden_state(kind):
            raise NotCompared(f"the content of {name_of(kind)} can't be read")
        if self._counts():
            self._once(value, lambda: self._attributes(value))

    def _compare_inside(self, value: object, base: type) -> None:
        def look() -> None:
            parts = INSIDE[base](value)
            self.fingerprint.feed_text("inside", str(len(parts)))
            for part in parts:
                self.fingerprint_only(part)
            self._attributes(value, beside=vars(base))

        if self._counts():
            self._once(value, look)

    def _base_of(self, kind: type) -> type | None:
        """Return the class in INSIDE that is this class or one of its bases, or None."""
        if kind not in self._bases:
            self._bases[kind] = next((base for base in kind.__mro__ if base in INSIDE), None)
        return self._bases[kind]

    def _counts(self) -> bool:
        """Count an object before its content is read; return False if nothing is compared.

        Raise NotCompared if there are too many objects.
        """
        if not self.compares or self.effort.reason:
            return False
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise NotCompared(f"it contains more than {MAX_OBJECTS:,} objects")
        return True

    def _attributes(self, value: object, *, beside: Iterable[str] = ()) -> None:
        """Add an object's attributes to the fingerprint, except those in ``beside``, which are read separately."""
        attributes = attributes_of(value)
        for name in beside:
            attributes.pop(name, None)
        if not attributes or not self.compares:
            return
        self.fingerprint.feed_text("attributes", str(len(attributes)))
        for name in sorted(attributes):
            self.fingerprint.feed_text("attribute", name)
            self.fingerprint_only(attributes[name])

    # --------------------------------------------------------------------------------------------------- containers

    def _container(self, value: Any, kind: type) -> None:
        self._once(value, lambda: self._elements(value, kind))

    def _once(self, value: object, look: Callable[[], None]) -> None:
        """Walk through the content of a value, unless the value contains itself or is too deep."""
        level = self._path.get(id(value))
        if level is not None:
            self._leaf(type(...), "...")
            self.fingerprint.feed_text("up", str(len(self._path) - level))
            return
        if len(self._path) >= MAX_DEPTH:
            self.text.write("…")
            self.effort.stop_digest(f"nested deeper than {MAX_DEPTH} containers")
            return
        self._path[id(value)] = len(self._path)
        try:
            look()
        finally:
            del self._path[id(value)]

    def _elements(self, value: Any, kind: type) -> None:
        if dataclasses.is_dataclass(kind):
            self._dataclass(value, kind)
            return
        self._builtin_elements(value, kind)
        if kind not in PLAIN and kind not in VIEWS:
            # A UserDict or UserList has its elements in an attribute.
            self._attributes(value, beside=("data",) if issubclass(kind, (UserDict, UserList)) else ())

    def _dataclass(self, value: Any, kind: type) -> None:
        fields = [field for field in dataclasses.fields(kind) if hasattr(value, field.name)]
        self._fields(kind, ((field.name, getattr(value, field.name)) for field in fields if field.repr))
        for field in fields:
            if self.compares and field.compare and not field.repr:
                self.fingerprint.feed_text("unshown", field.name)
                self.fingerprint_only(getattr(value, field.name))
        self._attributes(value, beside=[field.name for field in dataclasses.fields(kind)])

    def _builtin_elements(self, value: Any, kind: type) -> None:
        found = container_of(value)
        if found is None:
            self._other_elements(value, kind)
        elif found.base is dict:
            self._mapping(kind, dict.items(found.data), dict.__len__(found.data))
        elif found.base in (set, frozenset):
            self._set(kind, found)
        else:
            self._sequence(kind, found)

    def _other_elements(self, value: Any, kind: type) -> None:
        if kind in VIEWS:
            self._each_apart(kind, value, len(value), self.value, (f"{name_of(kind)}([", "])"))
        elif issubclass(kind, BaseException):
            self._error(value, kind)
        else:
            raise NotCompared(f"the {name_of(kind)} does not wrap a {'dict' if issubclass(kind, UserDict) else 'list'}")

    def _fields(self, kind: type, fields: Iterable[tuple[str, object]]) -> None:
        self.fingerprint.feed_text("fields", _identity(kind))
        self.text.write(f"{name_of(kind)}(")
        for index, (name, value) in enumerate(fields):
            self.fingerprint.feed_text("field", name)
            self.text.write(f", {name}=" if index else f"{name}=")
            self.value(value)
        # Fields may be unset, so their number varies. Without a mark at the end, an object's last field and data after
        # the object could produce the same fingerprint.
        self.fingerprint.feed_text("end", "")
        self.text.write(")")

    def _error(self, value: BaseException, kind: type) -> None:
        self.fingerprint.feed_text("raised", f"{_identity(kind)} {len(value.args)}")
        self.text.write(f"{name_of(kind)}(")
        self._in_order(iter(value.args))
        self.text.write(")")

    def _mapping(self, kind: type, items: Iterable[tuple[object, object]], size: int) -> None:
        brackets = ("{", "}") if kind is dict else (f"{name_of(kind)}({{", "})")
        if not issubclass(kind, OrderedDict):
            self._each_apart(kind, items, size, self._item, brackets)
            return
        self.fingerprint.feed_text("ordered", f"{_identity(kind)} {size}")
        self.text.write(brackets[0])
        for index, item in enumerate(items):
            self.text.write(", " if index else "")
            self._item(item)
        self.text.write(brackets[1])

    def _item(self, item: tuple[object, object]) -> None:
        self.value(item[0])
        self.text.write(": ")
        self.value(item[1])

    def _set(self, kind: type, found: Container) -> None:
        size = found.base.__len__(found.data)
        if kind is set and size:
            brackets = ("{", "}")
        else:
            brackets = (f"{name_of(kind)}({{", "})") if size else (f"{name_of(kind)}(", ")")
        self._each_apart(kind, found.base.__iter__(found.data), size, self.value, brackets)

    def _each_apart(
        self, kind: type, items: Iterable[Any], size: int, look: Callable[[Any], None], brackets: tuple[str, str]
    ) -> None:
        """Walk through items in arbitrary order, each with a separate fingerprint."""
        sum_of_all, own = Unordered(), self.fingerprint
        self.text.write(brackets[0])
        try:
            for index, item in enumerate(items):
                if index:
                    self.text.write(", ")
                self.fingerprint = type(own)()
                look(item)
                sum_of_all.add(self.fingerprint)
        finally:
            self.fingerprint = own
        self.text.write(brackets[1])
        own.feed_text("unordered", f"{_identity(kind)} {size}")
        own.feed(sum_of_all.sum())

    def _sequence(self, kind: type, found: Container) -> None:
        base, value = found
        size = base.__len__(value)
        if base is tuple and kind is not tuple and self._known_tuple(value, kind, size):
            return
        opening, closing = ("(", ",)" if size == 1 else ")") if base is tuple else ("[", "]")
        if kind not in (tuple, list):
            opening, closing = f"{name_of(kind)}({opening}", f"{closing})"
        self.fingerprint.feed_text("sequence", f"{_identity(kind)} {size}")
        self.text.write(opening)
        self._in_order(base.__iter__(value))
        self.text.write(closing)

    def _known_tuple(self, value: Any, kind: type, size: int) -> bool:
        """Walk through a named tuple, or a tuple whose repr users know; return False for any other tuple."""
        names = field_names(kind)
        if names is not None and len(names) == size:
            self._fields(kind, zip(map(str, names), tuple.__iter__(value), strict=True))
            return True
        if size <= RUN and SIMPLE.issuperset(map(type, tuple.__iter__(value))):
            # Shapes and the results of system calls have reprs that users know.
            self._object(value, kind)
            return True
        return False

    def _in_order(self, elements: Any) -> None:
        comma = ""
        while run := list(islice(elements, RUN)):
            self.effort.check()
            literal = _literal_of_numbers(run)
            if literal:
                self.text.write(comma)
                self._leaf(list, literal)
                comma = ", "
                continue
            for element in run:
                self.text.write(comma)
                self.value(element)
                comma = ", "


def _number(value: object) -> str:
    if type(value) is int and value.bit_length() > LONG_INT_BITS:
        return hex(value)
    return repr(value)


def _literal_of_numbers(run: list[object]) -> str:
    """Return the literals of the elements if all are numbers of ordinary size, else ""."""
    if not ATOMS.issuperset(map(type, run)):
        return ""
    try:
        return repr(run)[1:-1]
    except ValueError:
        return ""


def _is_container(kind: type) -> bool:
    if issubclass(kind, BaseException) and kind.__repr__ is BaseException.__repr__:
        return True
    return is_container(kind) or kind in VIEWS or dataclasses.is_dataclass(kind)


def _is_plain_array(kind: type) -> bool:
    return kind is getattr(sys.modules.get("array"), "array", None)


def _identity(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


# --------------------------------------------------------------------------------------------- descriptions for users


@dataclass(frozen=True, slots=True)
class Described:
    """The description of one value.

    ``text`` may be abbreviated and has at most :data:`.record.MAX_VALUE_TEXT` characters. ``digest`` is the digest of
    the whole value. Memory addresses and the number of a tensor's device are left out, because they differ between
    equal values of two ranks. The digest is empty if the value was not read whole; ``text`` then contains the reason.
    """

    text: str
    digest: str


def describe(value: object, *, seconds: float) -> Described:
    """Describe a value within ``seconds``.

    Runs ``repr`` of unknown objects in the calling thread, and copies tensors to the CPU, but runs no collective. Only
    the caller can interrupt a ``repr`` or a copy that takes too long: its KeyboardInterrupt is not caught. Raises no
    Exception.
    """
    effort = DigestBudget(seconds)
    walk = Walk(effort)
    whole = walk.whole(value)
    text = walk.text.compose(whole=whole, remark=effort.reason and f"values not compared: {effort.reason}")
    if effort.reason:
        return Described(text=text, digest="")
    return Described(text=text, digest=walk.fingerprint.digest().hex())


class _LongEnough(OutOfTime):
    """Raised when the text is long enough: no further characters will be shown."""


class _Beginning(ValueText):
    """A text that ends the walk once it has more than ``most`` characters."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.is_cut = False

    def write(self, piece: str) -> None:
        """Add a piece of any length. Raise _LongEnough when the text has its maximum length, to end its writer."""
        super().write(piece)
        if len(self.head) > self._most:
            self.is_cut = True
            raise _LongEnough("")


class _Glimpse(Walk):
    """A walk that writes the beginning of a text and compares nothing."""

    compares = False

    def __init__(self, effort: DigestBudget, most: int) -> None:
        super().__init__(effort)
        self.text: _Beginning = _Beginning(most)
        self.fingerprint = NoFingerprint()


def beginning_of(value: object, *, most: int, seconds: float) -> str:
    """Return the text of `describe` for a value, cut to ``most`` characters, or to HEAD - 1 if ``most`` is larger.

    Only the visible part is read: large tensors are not read, and the walk through a container ends once the text is
    long enough. So the text may lack the remark that the value can't be compared, if the reason is in a later part.
    Runs ``repr`` of unknown objects in the calling thread; the caller's KeyboardInterrupt is not caught. Raises no
    Exception.
    """
    most = min(most, HEAD - 1)
    effort = DigestBudget(seconds)
    walk = _Glimpse(effort, most)
    whole = walk.whole(value)
    if walk.text.is_cut:
        text = walk.text.head.encode("utf-8", "replace").decode()
    else:
        text = walk.text.compose(whole=whole, remark=effort.reason and f"values not compared: {effort.reason}")
    return text if len(text) <= most else f"{text[: most - 1]}…"
