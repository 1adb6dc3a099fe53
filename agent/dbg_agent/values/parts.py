"""The parts of a value, each with a digest: two ranks are compared part by part, then within the first different one.

A question names a path, and the answer is the parts there: some hundreds at most, even of a huge value.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dbg_agent.values.arrays import is_array
from dbg_agent.values.children import attributes_of, container_of, field_names, has_default_repr
from dbg_agent.values.describe import describe
from dbg_agent.values.record import Effort
from dbg_agent.values.tensors import is_tensor, literal, local_shard, wait_for_stream, why_unreadable
from dbg_wire.records.inspection import Part
from dbg_wire.records.record import fitted

MAX_PARTS = 256
"""Parts of one answer: four questions find one of ten million elements."""

MAX_PART_TEXT = 200
"""Characters of one part's text; the rest is left out."""

CHARACTERS = 48
"""Characters of a string that are one part: about as many as users compare at a glance."""

SORTED_BYTES = 64 * 1024 * 1024
"""Bytes of a tensor that are copied to bring its elements into order in memory; a larger tensor has no parts."""


def parts_of(value: object, path: Sequence[str], *, exact: bool, seconds: float) -> list[Part]:
    """Return the parts of what is at ``path`` in a value; an empty list if it has none.

    Runs in the stopped thread. Raises OutOfTime after ``seconds``, and what the value's own code raises.
    """
    node = _Look(Effort(seconds), exact).node(value)
    for step in path:
        if node is None:
            return []
        node = node.at(step)
    return list(node.parts()) if node is not None else []


@dataclass(frozen=True, slots=True)
class _Look:
    """How values are compared: within an effort, and with or without memory addresses."""

    effort: Effort
    exact: bool

    def node(self, value: Any) -> _Parted | None:
        """Return a value as one that has parts; None if it has none."""
        kind = type(value)
        if is_tensor(kind):
            return self._tensor(value)
        if is_array(kind):
            return _Elements(value.reshape(-1), self, value.shape) if value.ndim else None
        found = container_of(value)
        if found is not None and found.base is dict:
            keys = [(self.digest(key), key) for key in dict.keys(found.data)]
            return _MappingKeys(found.data, self, sorted(keys, key=lambda pair: pair[0]))
        if dataclasses.is_dataclass(kind):
            return _Fields(value, self, [field.name for field in dataclasses.fields(value)])
        names = field_names(kind)
        if names is not None:
            return _Fields(value, self, list(names))
        if found is not None and found.base in (list, tuple, deque):
            return _Sequence(list(found.base.__iter__(found.data)), self)
        if has_default_repr(kind):
            return _Fields(value, self, sorted(attributes_of(value)))
        if issubclass(kind, (str, bytes, bytearray)):
            return _Characters(value, self) if len(value) > CHARACTERS else None
        return None

    def _tensor(self, value: Any) -> _Parted | None:
        torch: Any = sys.modules["torch"]
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
            local = local_shard(value).detach()
            size = local.numel() * local.element_size()
            if local.ndim == 0 or why_unreadable(torch, local) or (not local.is_contiguous() and size > SORTED_BYTES):
                return None
            return _TensorElements(local.reshape(-1), self, tuple(local.shape))

    def digest_and_text(self, value: object) -> tuple[str, str]:
        """Return the digest of a value, or "" if it can't be compared, and the beginning of its text."""
        self.effort.check()
        described = describe(value, stats=False, seconds=self.effort.seconds)
        text = described.text
        shown = text if len(text) <= MAX_PART_TEXT else f"{text[:MAX_PART_TEXT]}…"
        return described.exact if self.exact else described.digest, shown

    def digest(self, value: object) -> str:
        """Return the digest of a value, or "" if it can't be compared."""
        return self.digest_and_text(value)[0]


class _Parted:
    """A value, or a range of it, that has parts."""

    def __init__(self, whole: Any, look: _Look) -> None:
        self.whole = whole
        self.look = look

    def parts(self) -> Iterator[Part]:
        """Return the parts, at most MAX_PARTS."""
        raise NotImplementedError

    def at(self, step: str) -> _Parted | None:
        """Return the part at this step; None if that has no parts itself. Raises if there is no such part."""
        raise NotImplementedError

    def part(self, step: str, label: str, value: object) -> Part:
        digest, text = self.look.digest_and_text(value)
        return fitted(Part, step=step, label=label, digest=digest, text=text)


class _Fields(_Parted):
    """An object with named fields."""

    def __init__(self, whole: Any, look: _Look, names: list[str]) -> None:
        super().__init__(whole, look)
        self._names = [name for name in names if hasattr(whole, name)]

    def parts(self) -> Iterator[Part]:
        for name in self._names[:MAX_PARTS]:
            yield self.part(name, f".{name}", getattr(self.whole, name))

    def at(self, step: str) -> _Parted | None:
        return self.look.node(getattr(self.whole, step))


class _MappingKeys(_Parted):
    """A mapping, or those of its keys whose digests begin alike."""

    def __init__(self, whole: Any, look: _Look, keys: list[tuple[str, Any]], depth: int = 0) -> None:
        super().__init__(whole, look)
        self._keys = keys
        self._depth = depth

    def parts(self) -> Iterator[Part]:
        if len(self._keys) <= MAX_PARTS:
            for digest, key in self._in_order():
                label = self.look.digest_and_text(key)[1]
                yield self.part(digest, f"[{label}]", dict.__getitem__(self.whole, key))
            return
        for begin in sorted({digest[: self._depth + 2] for digest, _ in self._keys}):
            sums = hashlib.blake2b(digest_size=16)
            for digest, key in self._beginning(begin):
                value = self.look.digest(dict.__getitem__(self.whole, key))
                sums.update(f"{digest} {value} ".encode())
            yield fitted(Part, step=begin, label="", digest=sums.hexdigest())

    def _in_order(self) -> list[tuple[str, Any]]:
        """Return the keys in the mapping's order."""
        places = {id(key): number for number, key in enumerate(dict.keys(self.whole))}
        return sorted(self._keys, key=lambda pair: places.get(id(pair[1]), 0))

    def _beginning(self, begin: str) -> list[tuple[str, Any]]:
        return [pair for pair in self._keys if pair[0].startswith(begin)]

    def at(self, step: str) -> _Parted | None:
        found = self._beginning(step)
        if len(step) == self._depth + 2:
            return _MappingKeys(self.whole, self.look, found, self._depth + 2)
        return self.look.node(dict.__getitem__(self.whole, found[0][1]))


class _Range(_Parted):
    """Items in a row, or a range of them."""

    def __init__(self, whole: Any, look: _Look, begin: int = 0, end: int | None = None) -> None:
        super().__init__(whole, look)
        self.begin, self.end = begin, len(whole) if end is None else end

    def parts(self) -> Iterator[Part]:
        size = self.end - self.begin
        if (size <= MAX_PARTS * self.at_once() and self.at_once() > 1) or size <= MAX_PARTS:
            for begin in range(self.begin, self.end, self.at_once()):
                yield self.single(begin, min(begin + self.at_once(), self.end))
            return
        length = -(-size // MAX_PARTS)
        for begin in range(self.begin, self.end, length):
            end = min(begin + length, self.end)
            yield fitted(Part, step=f"{begin}-{end}", label="", digest=self.digest(begin, end))

    def at(self, step: str) -> _Parted | None:
        begin, dash, end = step.partition("-")
        if dash:
            return self.within(int(begin), int(end))
        return self.inside(int(begin))

    def at_once(self) -> int:
        """Return how many items are one part."""
        return 1

    def digest(self, begin: int, end: int) -> str:
        return self.look.digest(self.whole[begin:end])

    def single(self, begin: int, end: int) -> Part:
        """Return the items of this range as one part."""
        return self.part(str(begin), f"[{begin}]", self.whole[begin])

    def within(self, begin: int, end: int) -> _Parted:
        return type(self)(self.whole, self.look, begin, end)

    def inside(self, begin: int) -> _Parted | None:
        """Return the item at ``begin`` if it has parts itself."""
        return None


class _Sequence(_Range):
    """A list, or a range of it."""

    def inside(self, begin: int) -> _Parted | None:
        return self.look.node(self.whole[begin])


class _Characters(_Range):
    """A string or bytes, or a range of them."""

    def at_once(self) -> int:
        return CHARACTERS

    def single(self, begin: int, end: int) -> Part:
        return fitted(
            Part,
            step=str(begin),
            label=f"[{begin}:{end}]",
            digest=self.digest(begin, end),
            text=repr(self.whole[begin:end]),
        )


class _Elements(_Range):
    """An array's elements in order, or a range of them."""

    def __init__(self, whole: Any, look: _Look, shape: Sequence[int], begin: int = 0, end: int | None = None) -> None:
        super().__init__(whole, look, begin, end)
        self.shape = tuple(shape)

    def within(self, begin: int, end: int) -> _Parted:
        return type(self)(self.whole, self.look, self.shape, begin, end)

    def single(self, begin: int, end: int) -> Part:
        return fitted(
            Part,
            step=str(begin),
            label=f"[{self._index(begin)}]",
            digest=self.digest(begin, end),
            text=self.literal(begin),
        )

    def literal(self, at: int) -> str:
        """Return one element as text."""
        element = self.whole[at]
        return str(element) if element.dtype.kind in "biufc" else repr(element.item())

    def _index(self, at: int) -> str:
        index: list[int] = []
        for size in reversed(self.shape):
            at, rest = divmod(at, size)
            index.insert(0, rest)
        return ", ".join(map(str, index))


class _TensorElements(_Elements):
    """A tensor's elements, or a range of them; each range is copied to the CPU by itself."""

    def digest(self, begin: int, end: int) -> str:
        part = self._copy(begin, end)
        size = part.numel() * part.element_size()
        self.look.effort.count(size)
        return hashlib.blake2b(ctypes.string_at(part.data_ptr(), size), digest_size=16).hexdigest()

    def literal(self, at: int) -> str:
        part = self._copy(at, at + 1)
        return literal(part.tolist()[0], part.element_size())

    def _copy(self, begin: int, end: int) -> Any:
        torch: Any = sys.modules["torch"]
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
            wait_for_stream(self.look.effort, torch, self.whole.device)
            return self.whole[begin:end].to("cpu").contiguous().resolve_conj().resolve_neg()
