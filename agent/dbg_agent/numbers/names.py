"""Names of modules and parameters, as their outermost module knows them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from dbg_agent.frames.stacks import outward

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"})
"""Attributes under which torch and DeepSpeed wrap a module; a user does not know them."""

_PARALLEL = frozenset({"DistributedDataParallel", "DataParallel", "DeepSpeedEngine"})
"""Classes that wrap a model in their attribute ``module``."""


class ModuleCall(NamedTuple):
    """A call of a module that runs now, and its arguments."""

    module: Any
    args: tuple[object, ...]
    kwargs: dict[str, object]


def running_calls(frame: FrameType | None) -> Iterator[ModuleCall]:
    """Yield the calls of modules on a stack, the innermost one first."""
    torch: Any = sys.modules["torch"]
    code = torch.nn.Module._call_impl.__code__
    for one in outward(frame):
        if one.f_code is code:
            variables = one.f_locals
            yield ModuleCall(variables["self"], variables["args"], variables["kwargs"])


class ModuleNames:
    """The outermost modules that the program has called, and the names of their parts."""

    def __init__(self) -> None:
        self._roots: weakref.WeakSet[Any] = weakref.WeakSet()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        """Modules and parameters by id, with their names."""

    def is_new(self, module: Any) -> bool:
        """Return True at the first call with this module."""
        is_new = module not in self._seen
        self._seen.add(module)
        return is_new

    def note_calls(self, frame: FrameType) -> Any:
        """Remember and return the outermost module that is called on this stack; None if it is known, or none is."""
        calls = list(running_calls(frame))
        root = calls[-1].module if calls else None
        if root is None or root in self._roots:
            return None
        self._roots.add(root)
        self._names.clear()
        return root

    def of_module(self, module: Any) -> str:
        """Return the name of a module; its class for an outermost module, or if no outermost module contains it."""
        return self._name_of(module, type(module).__name__)

    def of_parameter(self, parameter: Any, otherwise: str = "") -> str:
        """Return the name of a parameter; if no known module contains it, ``otherwise`` or its shape."""
        return self._name_of(parameter, otherwise or f"parameter of shape {list(parameter.shape)}")

    def _name_of(self, part: Any, otherwise: str) -> str:
        """Return the name of a module or parameter. At the first request for a new one, all names are collected."""
        known = self._names.get(id(part))
        if known is None or known[0]() is not part:
            # The first name is used, so that the names are written in the opposite order.
            for root in reversed(self.roots()):
                named = [*root.named_modules(remove_duplicate=False), *root.named_parameters()]
                self._names |= {id(one): (weakref.ref(one), _clean(root, name)) for name, one in reversed(named)}
            known = self._names.get(id(part))
        if known is None or known[0]() is not part:
            known = self._names[id(part)] = weakref.ref(part), otherwise
        return known[1]

    def buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield the names and buffers of all known modules."""
        return ((_clean(root, name), one) for root in self.roots() for name, one in root.named_buffers())

    def roots(self) -> list[Any]:
        """Return the outermost modules, the ones with the most parts first."""
        return sorted(self._roots, key=lambda root: -sum(1 for _ in root.modules()))


def _clean(root: Any, name: str) -> str:
    parts = name.split(".")
    if type(root).__name__ in _PARALLEL and parts[0] == "module":
        parts = parts[1:]
    return ".".join(part for part in parts if part not in _WRAPPERS) or type(root).__name__
