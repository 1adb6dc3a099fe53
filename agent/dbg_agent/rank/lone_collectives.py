"""Refuse the collectives of a typed expression that fewer ranks evaluate than the collective waits for.

Such a collective can't be undone: the thread waits in C code where no interrupt reaches it, and the library aborts when
its time is over. Torch's dispatcher tells of a collective before anything is sent, also of one that a sharded tensor
makes by itself, as for ``full_tensor()``. A library that doesn't use the dispatcher is not seen.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from dbg_agent.values.tensors import sharded_classes

NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
"""Namespaces of torch's operators in which all communicate, but for those that only wait."""

LOCAL = ("wait_tensor", "_wrap_tensor_autograd")
"""Operators in them that send nothing."""

OF_TWO = ("send", "recv_", "recv_any_source_")
"""Operators that only one other rank takes part in."""


class LoneCollective(Exception):
    """A collective of a typed expression that would wait for ranks which were not asked; nothing was sent."""


def refusing_lone_collectives(asked: int) -> AbstractContextManager[object]:
    """Have collectives in this context, and this thread, raise LoneCollective if they need more than ``asked`` ranks.

    Does nothing where ``asked`` is 0, which is unknown, or where torch has no process group of more ranks.
    """
    torch: Any = sys.modules.get("torch")
    groups: Any = sys.modules.get("torch.distributed")
    dispatch: Any = sys.modules.get("torch.utils._python_dispatch")
    try:
        if asked and groups is not None and groups.is_initialized() and groups.get_world_size() > asked:
            mode: AbstractContextManager[object] = _mode_class(dispatch.TorchDispatchMode)(torch, asked)
            return mode
    except Exception:
        # A release of torch with other names: the expression is evaluated all the same.
        return nullcontext()
    return nullcontext()


@cache
def _mode_class(base: Any) -> Any:
    class Refusing(base):  # type: ignore[misc]
        """Sees each operator of this thread before it runs."""

        supports_higher_order_operators = True

        def __init__(self, torch: Any, asked: int) -> None:
            super().__init__()
            self._torch = torch
            self._asked = asked
            self._is_over = False

        def __exit__(self, *error: Any) -> None:
            # A thread of torch that began meanwhile may have the mode for longer.
            self._is_over = True
            super().__exit__(*error)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not self._is_over:
                if any(issubclass(kind, sharded_classes()) for kind in types):
                    # The tensor's own class comes first, and its operators are then seen one by one.
                    return NotImplemented
                if getattr(func, "namespace", "") in NAMESPACES:
                    _check(self._torch, func, args, self._asked)
            return func(*args, **(kwargs or {}))

    return Refusing


def _check(torch: Any, func: Any, args: Any, asked: int) -> None:
    name = func.__name__.partition(".")[0]
    if name in LOCAL:
        return
    needed = 2 if name in OF_TWO else _group_size(torch, args)
    if needed > asked:
        are = "1 rank is" if asked == 1 else f"{asked} ranks are"
        raise LoneCollective(
            f"{name} waits for {needed} ranks, and {are} asked, so nothing was sent; "
            "ask all of them, or for the part in this rank: tensor.to_local()"
        )


def _group_size(torch: Any, args: Any) -> int:
    """Return the number of ranks in the process group that an operator is given: an object, or its name."""
    groups = torch.distributed
    for arg in args:
        if isinstance(arg, torch.ScriptObject):
            try:
                return int(groups.ProcessGroup.unbox(arg).size())
            except RuntimeError:
                # Another object, such as the kind of a reduction.
                continue
        if isinstance(arg, str):
            try:
                return int(groups.distributed_c10d._resolve_process_group(arg).size())
            except (RuntimeError, ValueError):
                continue
    return int(groups.get_world_size())
