"""Hooks of torch's modules, tensors and optimizers: they pass the numbers of a training to observers.

The global hooks are never removed: torch may be iterating over them in another thread. Without an observer they do
nothing.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

from dbg_agent.numbers.names import ModuleNames
from dbg_agent.numbers.returns import ForwardReturns
from dbg_agent.numbers.tensors import aside, is_ordinary, tensors_in
from dbg_agent.process.imports import when_loaded
from dbg_agent.stop.inbox import unharmed
from dbg_agent.values.tensors import local_shard
from dbg_wire.records.numbers import WrongNumber

COMPILE_WARNING = r"Using `torch\.compile\(module\)` when there are global hooks on modules"
"""Beginning of torch's warning about global hooks. A user who has registered none can't act on it."""


class Found(NamedTuple):
    """A wrong number, and the variables that a user can look at when the rank has stopped there."""

    wrong: WrongNumber
    variables: Mapping[str, object]


class Observer:
    """Base of the watches over the numbers of a training.

    The hooks call it in the program's threads, in the context :func:`.tensors.aside`. Each method returns a wrong
    number, or None. Without ``sees_tensors`` only the last two are called.
    """

    sees_tensors: bool = True

    def output(self, module: Any, tensor: Any) -> Found | None:
        """Look at an output of a module."""

    def output_gradient(self, module: Any, gradient: Any) -> Found | None:
        """Look at the gradient of an output."""

    def before_step(self, optimizer: Any) -> Found | None:
        """Look at the reduced gradients."""

    def after_step(self, optimizer: Any) -> Found | None:
        """Look at the changed parameters."""


class TrainingHooks:
    """The global hooks of this process, and the number of the current step."""

    def __init__(
        self, hold: Callable[[], None], stop: Callable[[Found], None], failed: Callable[[Exception], None]
    ) -> None:
        """Keep the callbacks: ``hold`` may make the thread wait, and ``stop`` stops it at a wrong number."""
        self._hold = hold
        self._stop = stop
        self._failed = failed
        self._is_registered = False
        self._is_exact = False
        self._returns = ForwardReturns(partial(self._enter, self._look_at_output))
        self.observers: tuple[Observer, ...] = ()
        self._latest: weakref.ref[Any] | None = None
        self._version = 0
        self.names = ModuleNames()
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.step = 1
        """The number of the current step, from its forward pass to the end of the optimizer's step."""
        self.checked = 0
        self.compiled = 0

    def start(self, observers: tuple[Observer, ...], *, exact: bool = False) -> None:
        """Pass the numbers to these observers from now on. May be called in any thread.

        With ``exact`` and from Python 3.12 on, they see the result of the user's ``forward`` before it returns.
        """
        self.observers = observers
        self._is_exact = exact
        self._returns.end()
        for root in self.names.roots() if exact else ():
            self._watch_returns(root)
        if observers and not self._is_registered:
            self._is_registered = True
            when_loaded("torch", self._register)

    def _register(self, _torch: object) -> None:
        from torch.nn.modules.module import register_module_forward_hook
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        warnings.filterwarnings("ignore", message=COMPILE_WARNING)
        # torch.compile must not compile the entry when it runs in a region of the program that is compiled in parts.
        when_loaded("torch._dynamo.eval_frame", lambda dynamo: dynamo.skip_code(TrainingHooks._enter.__code__))
        enter, look = self._enter, self._look_at_output
        register_module_forward_hook(lambda module, _args, output: enter(look, module, output))
        register_optimizer_step_pre_hook(lambda optimizer, _args, _kwargs: enter(self._before_step, optimizer))
        register_optimizer_step_post_hook(lambda optimizer, _args, _kwargs: enter(self._after_step, optimizer))

    # ---------------------------------------------------------------------------------------- in the program's threads

    def _enter(self, hook: Callable[..., None], *args: Any) -> None:
        """Run a hook; nothing of it is compiled, and its errors do not reach the program."""
        torch: Any = sys.modules["torch"]
        # torch.compile traces this function. With this constant it is empty, and does not break the graph.
        is_idle = torch.compiler.is_compiling() or not self.observers
        if is_idle or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()):
            return
        set_eval_frame = torch._C._dynamo.eval_frame.set_eval_frame
        former = set_eval_frame(None)
        try:
            unharmed(partial(hook, *args), self._failed)
        finally:
            set_eval_frame(former)

    def _look(self, look: Callable[[Observer], Found | None]) -> None:
        """Let each observer look. The thread waits and stops outside of the context of the observers."""
        self._hold()
        self.checked += 1
        with aside():
            found = next(filter(None, map(look, self.observers)), None)
        if found is not None:
            self._stop(found)

    def _look_at_output(self, module: Any, output: Any) -> None:
        if self.names.is_new(module):
            self.compiled += type(module).__name__ == "OptimizedModule"
            root = self.names.note_calls(sys._getframe())
            if self._is_exact and root is not None:
                self._watch_returns(root)
        if not any(observer.sees_tensors for observer in self.observers):
            self._hold()
            return
        for tensor in tensors_in(output):
            if not is_ordinary(local_shard(tensor)) or self._is_latest(tensor):
                # A container returns the output of its last part, which has been looked at.
                continue
            self._look(methodcaller("output", module, tensor))
            if tensor.requires_grad:
                tensor.register_hook(partial(self._enter, self._output_gradient, module))

    def _watch_returns(self, root: Any) -> None:
        self._returns.start()
        for part in root.modules():
            self._returns.add(part)

    def _is_latest(self, tensor: Any) -> bool:
        version = 0 if tensor.is_inference() else tensor._version
        is_same = self._latest is not None and self._latest() is tensor and version == self._version
        self._latest, self._version = weakref.ref(tensor), version
        return is_same

    def _output_gradient(self, module: Any, gradient: Any) -> None:
        self._look(methodcaller("output_gradient", module, gradient))

    def _before_step(self, optimizer: Any) -> None:
        # The optimizer's own counts are read only once: a parameter's count stays if the parameter has no gradient.
        done = self._steps.get(optimizer)
        self.step = self._steps[optimizer] = (_steps_of(optimizer) if done is None else done) + 1
        self._look(methodcaller("before_step", optimizer))

    def _after_step(self, optimizer: Any) -> None:
        self._look(methodcaller("after_step", optimizer))
        self.step = self._steps.get(optimizer, 0) + 1


def _steps_of(optimizer: Any) -> int:
    """Return the number of steps that an optimizer has done, 0 if it has no count, or has it on a device."""
    counts = [state.get("step") for state in optimizer.state.values()]
    known = (one for one in counts if isinstance(one, int) or (getattr(one, "is_cpu", False) and one.numel() == 1))
    return max(map(int, known), default=0)
