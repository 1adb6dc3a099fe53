"""The parts of a value, each with a digest: two ranks are compared part by part, then within the first different one.

A question names a path, and the answer is the parts there: some hundreds at most, even of a huge value.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dbg_agent.values.arrays import is_array
from dbg_agent.values.children import Child, Surveys, children_of, container_of, field_names, has_default_repr
from dbg_agent.values.describe import beginning_of, describe
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
    node = _Look(Effort(seconds), exact, {}).node(value)
    for step in path:
        if node is None:
            return []
        node = node.at(step)
    return list(node.parts()) if node is not None else []


class _Node(Protocol):
    """A value, or a range of it, that has parts."""

    def parts(self) -> Iterator[Part]:
        """Return the parts, at most MAX_PARTS."""

    def at(self, step: str) -> _Node | None:
        """Return the part at this step; None if that has no parts itself. Raises if there is no such part."""


@dataclass(frozen=True, slots=True)
class _Look:
    """How values are compared: within an effort, and with or without memory addresses."""

    effort: Effort
    exact: bool
    surveys: Surveys

    def node(self, value: Any) -> _Node | None:
        """Return a value as one that has parts; None if it has none."""
        kind = type(value)
        if is_tensor(kind):
            return self._tensor(value)
        if is_array(kind):
            return self._array(value) if value.ndim else None
        found = container_of(value)
        if found is not None and found.base is dict:
            keys = [(self.digest(key), key) for key in dict.keys(found.data)]
            return _Keys(found.data, self, sorted(keys, key=lambda pair: pair[0]))
        if dataclasses.is_dataclass(kind) or field_names(kind) is not None:
            return self._fields(value)
        if found is not None and found.base in (list, tuple, deque):
            items = list(found.base.__iter__(found.data))
            return _Row(
                self,
                (0, len(items)),
                digest=lambda begin, end: self.digest(items[begin:end]),
                shown=lambda begin, _end: (f"[{begin}]", self.text(items[begin])),
                inside=lambda begin: self.node(items[begin]),
            )
        if has_default_repr(kind):
            return self._fields(value)
        if issubclass(kind, (str, bytes, bytearray)) and len(value) > CHARACTERS:
            return _Row(
                self,
                (0, len(value)),
                digest=lambda begin, end: self.digest(value[begin:end]),
                shown=lambda begin, end: (f"[{begin}:{end}]", repr(value[begin:end])),
                at_once=CHARACTERS,
            )
        return None

    def _fields(self, value: Any) -> _Node:
        named = children_of(value, self.surveys, self.text).named
        return _Fields(self, {child.name: child for child in named if not child.is_lazy})

    def _array(self, value: Any) -> _Node:
        flat = value.reshape(-1)

        def text(at: int) -> str:
            element = flat[at]
            return str(element) if element.dtype.kind in "biufc" else repr(element.item())

        return _Row(
            self,
            (0, len(flat)),
            digest=lambda begin, end: self.digest(flat[begin:end]),
            shown=lambda begin, _end: (_index(value.shape, begin), text(begin)),
        )

    def _tensor(self, value: Any) -> _Node | None:
        torch: Any = sys.modules["torch"]
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
            local = local_shard(value).detach()
            size = local.numel() * local.element_size()
            if local.ndim == 0 or why_unreadable(torch, local) or (not local.is_contiguous() and size > SORTED_BYTES):
                return None
            flat, shape = local.reshape(-1), tuple(local.shape)

        def copied(begin: int, end: int) -> Any:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
                wait_for_stream(self.effort, torch, flat.device)
                return flat[begin:end].to("cpu").contiguous().resolve_conj().resolve_neg()

        def digest(begin: int, end: int) -> str:
            part = copied(begin, end)
            size = part.numel() * part.element_size()
            self.effort.count(size)
            return hashlib.blake2b(ctypes.string_at(part.data_ptr(), size), digest_size=16).hexdigest()

        def shown(begin: int, end: int) -> tuple[str, str]:
            part = copied(begin, end)
            return _index(shape, begin), literal(part.tolist()[0], part.element_size())

        return _Row(self, (0, len(flat)), digest=digest, shown=shown)

    def digest(self, value: object) -> str:
        """Return the digest of a value, or "" if it can't be compared."""
        self.effort.check()
        described = describe(value, stats=False, seconds=self.effort.seconds)
        return described.exact if self.exact else described.digest

    def text(self, value: object) -> str:
        """Return the beginning of a value's text."""
        return beginning_of(value, most=MAX_PART_TEXT, seconds=self.effort.seconds)

    def part(self, step: str, label: str, value: object) -> Part:
        """Return a value as a part."""
        return fitted(Part, step=step, label=label, digest=self.digest(value), text=self.text(value))


def _index(shape: Sequence[int], at: int) -> str:
    index: list[int] = []
    for size in reversed(shape):
        at, rest = divmod(at, size)
        index.insert(0, rest)
    return f"[{', '.join(map(str, index))}]"


@dataclass(frozen=True, slots=True)
class _Fields:
    """An object with named fields."""

    look: _Look
    fields: dict[str, Child]

    def parts(self) -> Iterator[Part]:
        for name, child in list(self.fields.items())[:MAX_PARTS]:
            yield self.look.part(name, f".{name}", child.read())

    def at(self, step: str) -> _Node | None:
        return self.look.node(self.fields[step].read())


@dataclass(frozen=True, slots=True)
class _Keys:
    """A mapping, or those of its keys whose digests begin alike."""

    whole: Any
    look: _Look
    keys: list[tuple[str, Any]]
    depth: int = 0

    def parts(self) -> Iterator[Part]:
        if len(self.keys) <= MAX_PARTS:
            for digest, key in self._in_order():
                yield self.look.part(digest, f"[{self.look.text(key)}]", dict.__getitem__(self.whole, key))
            return
        for begin in sorted({digest[: self.depth + 2] for digest, _ in self.keys}):
            sums = hashlib.blake2b(digest_size=16)
            for digest, key in self._beginning(begin):
                value = self.look.digest(dict.__getitem__(self.whole, key))
                sums.update(f"{digest} {value} ".encode())
            yield fitted(Part, step=begin, label="", digest=sums.hexdigest())

    def _in_order(self) -> list[tuple[str, Any]]:
        """Return the keys in the mapping's order."""
        places = {id(key): number for number, key in enumerate(dict.keys(self.whole))}
        return sorted(self.keys, key=lambda pair: places.get(id(pair[1]), 0))

    def _beginning(self, begin: str) -> list[tuple[str, Any]]:
        return [pair for pair in self.keys if pair[0].startswith(begin)]

    def at(self, step: str) -> _Node | None:
        found = self._beginning(step)
        if len(step) == self.depth + 2:
            return _Keys(self.whole, self.look, found, self.depth + 2)
        return self.look.node(dict.__getitem__(self.whole, found[0][1]))


@dataclass(frozen=True, slots=True)
class _Row:
    """Items in a row, or a range of them.

    ``shown`` returns label and text of some items, and ``inside`` the parts of one. Some ``at_once`` are one part.
    """

    look: _Look
    range: tuple[int, int]
    digest: Callable[[int, int], str]
    shown: Callable[[int, int], tuple[str, str]]
    inside: Callable[[int], _Node | None] = lambda _begin: None
    at_once: int = 1

    def parts(self) -> Iterator[Part]:
        first, last = self.range
        is_large = last - first > MAX_PARTS * self.at_once
        length = -(-(last - first) // MAX_PARTS) if is_large else self.at_once
        for begin in range(first, last, length):
            end = min(begin + length, last)
            label, text = ("", "") if is_large else self.shown(begin, end)
            step = f"{begin}-{end}" if is_large else str(begin)
            yield fitted(Part, step=step, label=label, digest=self.digest(begin, end), text=text)

    def at(self, step: str) -> _Node | None:
        begin, dash, end = step.partition("-")
        return replace(self, range=(int(begin), int(end))) if dash else self.inside(int(begin))
