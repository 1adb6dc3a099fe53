"""Recorder of the numbers of a training: writes them to a file, and compares them with those of another run."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from dbg_agent.numbers.digests import digest_of
from dbg_agent.numbers.hooks import Found, Observer, TrainingHooks
from dbg_agent.numbers.late_values import LateValues, Measured
from dbg_agent.numbers.tensors import extremes, floats_of, parameters_of
from dbg_dial.number_files import steps_of, writer_of
from dbg_wire.errors import error_line
from dbg_wire.numbers.compare import Comparison
from dbg_wire.numbers.rows import MAX_TENSOR_NAME, NotNumbers, Numbers, StepNumbers, WatchedTensor
from dbg_wire.records.numbers import NumbersQuestion, Suspect


class Recorder(Observer):
    """Observer that measures the outputs of modules, the reduced gradients, and the parameters.

    The values of a step are read after it, or after a later step if they have not arrived from a device.
    """

    def __init__(self, question: NumbersQuestion, hooks: TrainingHooks, rank: int, warn: Callable[[str], None]) -> None:
        self._exclude = question.exclude
        self._hooks = hooks
        self._warn = warn
        self._late = LateValues()
        # The generators open files at the first step.
        self._file = writer_of(question.record, rank, question.last) if question.record else None
        if self._file is not None:
            next(self._file)
        steps = steps_of(question.reference, rank)
        self._other = Comparison(steps, exact=question.exact) if question.reference else None

    def output(self, module: Any, tensor: Any) -> Found | None:
        """Measure an output of a module."""
        self._measure(Suspect.OUTPUT, module, tensor)
        return None

    def before_step(self, optimizer: Any) -> Found | None:
        """Measure the reduced gradients."""
        for parameter in parameters_of(optimizer):
            if parameter.grad is not None:
                self._measure(Suspect.GRADIENT, parameter, parameter.grad)
        return None

    def after_step(self, optimizer: Any) -> Found | None:
        """Measure the parameters. Write and compare the steps whose values have arrived."""
        for parameter in parameters_of(optimizer):
            self._measure(Suspect.PARAMETER, parameter, parameter)
        for number, measured in self._late.read(self._hooks.step):
            owners, numbers = self._named(number, measured)
            try:
                if self._file is not None:
                    self._file.send(numbers)
                if self._other is not None and (found := self._other.differing(numbers)) is not None:
                    self._other = None
                    return Found(found[1], {"_watched": owners[found[0]]})
            except OSError as error:
                self._file = None
                self._warn(f"the numbers can't be written ({error_line(error)}); the recording has ended")
            except NotNumbers as error:
                self._other = None
                self._warn(f"{error}; this rank is not compared with the other run")
        return None

    def _measure(self, suspect: Suspect, owner: Any, tensor: Any) -> None:
        floats = floats_of(tensor)
        if floats is None:
            return
        torch: Any = sys.modules["torch"]
        low, high = extremes(floats)
        dtype = torch.float64 if floats.dtype is torch.float64 else torch.float32
        norm = torch.linalg.vector_norm(floats, dtype=dtype)
        if low.is_cpu and math.isfinite(low.item()) and math.isfinite(high.item()):
            wrong = low.new_zeros((), dtype=torch.int64)
        else:
            wrong = floats.numel() - torch.isfinite(floats).sum()
        key = (suspect, owner, tuple(floats.shape), str(floats.dtype).removeprefix("torch."))
        self._late.add(key, norm, low, high, wrong, digest_of(floats))

    def _named(self, step: int, measured: list[Measured]) -> tuple[list[Any], StepNumbers]:
        """Return the numbers of a step by name, and the owners of these tensors."""
        names = self._hooks.names
        calls: Counter[tuple[Suspect, str]] = Counter()
        owners: list[Any] = []
        numbers: dict[WatchedTensor, Numbers] = {}
        for (suspect, owner, shape, dtype), (norm, low, high, wrong, digest) in measured:
            name = names.of_module(owner) if suspect is Suspect.OUTPUT else names.of_parameter(owner)
            if any(fnmatchcase(name, pattern) for pattern in self._exclude):
                continue
            name = name[:MAX_TENSOR_NAME]
            tensor = WatchedTensor(suspect=suspect, name=name, call=calls[suspect, name], shape=shape, dtype=dtype)
            calls[suspect, name] += 1
            owners.append(owner)
            numbers[tensor] = Numbers(norm=norm, low=low, high=high, wrong=wrong, digest=digest)
        return owners, StepNumbers(step, numbers)
