"""Parameters of DistributedDataParallel that got no gradient: their rank leaves out the all_reduce of their bucket.

Modules and parameters are read as they stand in their dictionaries; no code of the program, and no hook, runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from dbg_agent.evidence.stacks import SeenThread
from dbg_agent.frames.stacks import is_users_file
from dbg_agent.frames.variables import UNKNOWN, attribute, class_of, local, variable
from dbg_wire.errors import printable

MODULE = "torch.nn.parallel.distributed"

MAX_SECONDS = 0.01
"""Seconds of processor time of one look: a model with ten thousand parameters takes about as much."""

MAX_VARIABLES, MAX_NAMED, MAX_NAME = 200, 2, 60


def lacking_gradients(threads: Sequence[SeenThread]) -> str:
    """Return which parameters have no gradient while others of the model have one; empty if there are none.

    Before the first backward, and after ``zero_grad``, none has one, and that is no news.
    """
    if MODULE not in sys.modules:
        return ""
    main = next((thread for thread in threads if thread.is_main and thread.is_readable), None)
    until = time.thread_time() + MAX_SECONDS
    for model in _models(main.frames) if main is not None else ():
        names: list[str] = []
        count = 0
        needs, gradient = _getters()
        for name, parameter in _parameters(model, "", until):
            if needs(parameter) is True:
                count += 1
                names += [name.removeprefix("module.")] if gradient(parameter) is None else []
        if names and len(names) < count and time.thread_time() < until:
            more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            shown = ", ".join(printable(name[:MAX_NAME]) for name in names[:MAX_NAMED])
            return f"{len(names)} of {count} parameters of its DDP model have no gradient: {shown}{more}"
    return ""


def _models(frames: Sequence[FrameType]) -> Iterator[Any]:
    seen: set[int] = set()
    for frame in frames:
        if not is_users_file(frame.f_code.co_filename):
            continue
        code = frame.f_code
        values = [local(frame, name) for name in (code.co_varnames + code.co_freevars)[:MAX_VARIABLES]]
        values += [variable(frame, name) for name in code.co_names[:MAX_VARIABLES]]
        for value in values:
            if value is not UNKNOWN and id(value) not in seen:
                seen.add(id(value))
                if class_of(value) == (MODULE, "DistributedDataParallel"):
                    yield value


def _parameters(module: Any, prefix: str, until: float) -> Iterator[tuple[str, Any]]:
    to_go = [(prefix, module)]
    while to_go and time.thread_time() < until:
        path, one = to_go.pop()
        parameters, modules = attribute(one, "_parameters"), attribute(one, "_modules")
        for name, parameter in list(parameters.items()) if type(parameters) is dict else ():
            if type(name) is str and class_of(parameter) == ("torch.nn.parameter", "Parameter"):
                yield f"{path}{name}", parameter
        for name, inner in reversed(list(modules.items()) if type(modules) is dict else []):
            if type(name) is str and inner is not None:
                to_go.append((f"{path}{name}.", inner))


def _getters() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return what tells whether a tensor needs a gradient, and the gradient, as C keeps them."""
    native = vars(sys.modules["torch._C"])
    base = native.get("TensorBase") or native.get("_TensorBase")
    return base.__dict__["requires_grad"].__get__, base.__dict__["grad"].__get__
