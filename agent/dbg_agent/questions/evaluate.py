"""Evaluation of an expression at a frame of the program, in the thread of that frame.

The typed code may do anything: raise, print, read stdin, never end. If it raises, the exception is the answer. The
caller interrupts code that takes too long by KeyboardInterrupt.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.capture import Capture, redirected
from dbg_agent.frames.variables import read_locals
from dbg_agent.values.record import abridged, error_text, without_addresses
from dbg_agent.values.tensors import sharded_classes
from dbg_wire.messages import Ask, Kind

if TYPE_CHECKING:
    from dbg_agent.values.describe import Described

NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
"""Namespaces of torch's operators. All operators in them communicate, except operators that only wait."""

LOCAL = ("wait_tensor", "_wrap_tensor_autograd")
"""Operators in NAMESPACES that send nothing."""

OF_TWO = ("send", "recv_", "recv_any_source_")
"""Operators in NAMESPACES that involve only one other rank."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The outcome of an expression or a command, as sent in the answer."""

    kind: Kind
    text: str
    digest: str = ""


def evaluate(ask: Ask, frame: FrameType, known_locals: Mapping[str, Any] | None = None) -> Evaluated:
    """Return the value of ``ask.text`` at this frame, and the text that it printed.

    ``known_locals`` are the locals that an open debugger keeps for this frame, if one shows it.
    """
    from dbg_agent.values.describe import describe

    printed = Capture()
    try:
        with redirected(printed):
            value = _value(ask.text, frame, known_locals)
            described = describe(value, seconds=ask.seconds / 2)
    except KeyboardInterrupt:
        return interrupted(ask)
    except BaseException as error:
        return raised(error)
    if not printed.text:
        return Evaluated(Kind.VALUE, described.text, described.digest)
    return printed_only(printed) if value is None else _both(printed.text, described)


def _both(printed: str, value: Described) -> Evaluated:
    """Return one answer with the printed text and the value; its digest covers both, so both are compared."""
    digest = digest_of(printed + value.digest) if value.digest else ""
    return Evaluated(Kind.VALUE, abridged(printed + value.text), digest)


def _value(text: str, frame: FrameType, known_locals: Mapping[str, Any] | None) -> Any:
    code = compile(text.strip(), "<dbg-attach eval>", "eval")
    # With two namespaces a comprehension or lambda in the expression would not see the frame's locals.
    return eval(code, {**frame.f_globals, **(read_locals(frame) if known_locals is None else known_locals)})  # noqa: S307 - the user asks for it


def interrupted(ask: Ask) -> Evaluated:
    """Return the answer to a question that ran out of time."""
    return Evaluated(Kind.ERROR, f"interrupted after {ask.seconds:g} s", "interrupted")


def raised(error: BaseException) -> Evaluated:
    """Return the answer for code that raised this exception."""
    whole = error_text(error)
    return Evaluated(Kind.ERROR, abridged(whole), digest_of(whole))


def printed_only(printed: Capture) -> Evaluated:
    """Return the answer for code that has no value, only printed text."""
    text = printed.text.rstrip("\n")
    if printed.lost:
        return Evaluated(Kind.VALUE, f"{abridged(text)}\n[{printed.lost} more characters are lost]")
    # pdb marks its errors in this way.
    kind = Kind.ERROR if text.startswith("*** ") else Kind.VALUE
    return Evaluated(kind, abridged(text), digest_of(text))


def digest_of(text: str) -> str:
    """Return the digest of a whole text, without memory addresses."""
    return hashlib.blake2b(without_addresses(text).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class PartialCollective(Exception):
    """Raised when a collective of a typed expression would wait for ranks that were not asked; nothing was sent."""


def refusing_lone_collectives(asked: int) -> AbstractContextManager[object]:
    """Make collectives in this context and thread raise PartialCollective if they need more than ``asked`` ranks.

    Do nothing if ``asked`` is 0, which means unknown, or if torch has no process group with more ranks than that.
    """
    torch: Any = sys.modules.get("torch")
    groups: Any = sys.modules.get("torch.distributed")
    dispatch: Any = sys.modules.get("torch.utils._python_dispatch")
    try:
        if asked and groups is not None and groups.is_initialized() and groups.get_world_size() > asked:
            mode: AbstractContextManager[object] = _mode_class(dispatch.TorchDispatchMode)(torch, asked)
            return mode
    except Exception:
        # Another release of torch may use other names; the expression is then evaluated without this check.
        return nullcontext()
    return nullcontext()


@cache
def _mode_class(base: Any) -> Any:
    class Refusing(base):  # type: ignore[misc]
        """Receives each operator of this thread before it runs."""

        supports_higher_order_operators = True

        def __init__(self, torch: Any, asked: int) -> None:
            super().__init__()
            self._torch = torch
            self._asked = asked
            self._is_over = False

        def __exit__(self, *error: Any) -> None:
            # A thread that torch has started inside this context may keep the mode active after the context has ended.
            self._is_over = True
            super().__exit__(*error)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not self._is_over:
                if any(issubclass(kind, sharded_classes()) for kind in types):
                    # The tensor's own class handles the operator first. The operators that the tensor's class then runs
                    # arrive here one by one.
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
        raise PartialCollective(
            f"{name} waits for {needed} ranks, but only {are} asked, so nothing was sent; "
            "ask all of them, or only for this rank's part: tensor.to_local()"
        )


def _group_size(torch: Any, args: Any) -> int:
    """Return the number of ranks in the process group that an operator gets as an object or by name."""
    groups = torch.distributed
    for arg in args:
        if isinstance(arg, torch.ScriptObject):
            try:
                return int(groups.ProcessGroup.unbox(arg).size())
            except RuntimeError:
                # The object is not a process group; it may be the kind of a reduction, such as a sum.
                continue
        if isinstance(arg, str):
            try:
                return int(groups.distributed_c10d._resolve_process_group(arg).size())
            except (RuntimeError, ValueError):
                continue
    return int(groups.get_world_size())
