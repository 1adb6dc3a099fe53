"""Recorder of the numbers of a training: writes them to a file, and compares them with those of another run."""

from __future__ import annotations

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
from dbg_wire.numbers.rows import MEASURES, NotNumbers, Numbers, StepNumbers, WatchedTensor
from dbg_wire.records.numbers import NumbersQuestion, Suspect, WrongNumber


class Recorder(Observer):
    """Observer that measures the outputs of modules, the reduced gradients, and the parameters.

    The values of a step are read after it, or after a later step if they have not arrived from a device.
    """

    def __init__(self, question: NumbersQuestion, hooks: TrainingHooks, rank: int, warn: Callable[[str], None]) -> None:
        self._exclude = question.exclude
        self._hooks = hooks
        self._warn = warn
        self._late = LateValues()
        self._users: list[Callable[[StepNumbers], tuple[int, WrongNumber] | None]] = []
        # The generators open files at the first step.
        if question.record:
            file = writer_of(question.record, rank, question.last)
            next(file)
            self._users.append(file.send)
        if question.reference:
            other = Comparison(steps_of(question.reference, rank), exact=question.exact)
            self._users.append(other.differing)

    def output(self, module: Any, tensor: Any) -> None:
        """Measure an output of a module."""
        self._measure(Suspect.OUTPUT, module, tensor)

    def before_step(self, optimizer: Any) -> None:
        """Measure the reduced gradients."""
        for parameter in parameters_of(optimizer):
            if parameter.grad is not None:
                self._measure(Suspect.GRADIENT, parameter, parameter.grad)

    def after_step(self, optimizer: Any) -> Found | None:
        """Measure the parameters. Write and compare the steps whose values have arrived."""
        for parameter in parameters_of(optimizer):
            self._measure(Suspect.PARAMETER, parameter, parameter)
        for number, measured in self._late.read(self._hooks.step):
            numbers = self._named(number, measured)
            for use in tuple(self._users):
                try:
                    if (found := use(numbers)) is not None:
                        self._users.remove(use)
                        return Found(found[1], {})
                except (OSError, NotNumbers) as error:
                    self._users.remove(use)
                    self._warn(f"the recording or comparison of numbers has ended: {error_line(error)}")
        return None

    def _measure(self, suspect: Suspect, owner: Any, tensor: Any) -> None:
        floats = floats_of(tensor)
        if floats is None:
            return
        torch: Any = sys.modules["torch"]
        minimum, maximum = extremes(floats)
        norm = torch.linalg.vector_norm(floats, dtype=torch.promote_types(floats.dtype, torch.float32))
        nonfinite = floats.numel() - torch.isfinite(floats).sum()
        key = (suspect, owner, tuple(floats.shape), str(floats.dtype).removeprefix("torch."))
        self._late.add(key, norm, minimum, maximum, nonfinite, digest_of(floats))

    def _named(self, step: int, measured: list[Measured]) -> StepNumbers:
        """Return the numbers of a step by name."""
        names = self._hooks.names
        calls: Counter[tuple[Suspect, str]] = Counter()
        tensors: dict[WatchedTensor, Numbers] = {}
        for (suspect, owner, shape, dtype), values in measured:
            name = names.of_module(owner) if suspect is Suspect.OUTPUT else names.of_parameter(owner)
            if any(fnmatchcase(name, pattern) for pattern in self._exclude):
                continue
            calls[suspect, name] += 1
            tensor = WatchedTensor(suspect=suspect, name=name, call=calls[suspect, name], shape=shape)
            tensors[tensor] = Numbers(**dict(zip(MEASURES, values, strict=True)), dtype=dtype)
        return StepNumbers(step, tensors)
