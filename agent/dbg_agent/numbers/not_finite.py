"""Watch for the first number that is not finite: in outputs of modules, in gradients, and in parameters."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dbg_agent.numbers.hooks import Found, Observer, TrainingHooks
from dbg_agent.numbers.late_values import LateValues
from dbg_agent.numbers.names import ModuleCall, running_calls
from dbg_agent.numbers.replica_groups import world
from dbg_agent.numbers.tensors import (
    are_finite,
    extremes,
    floats_of,
    is_finite,
    is_wrong_input,
    parameters_of,
    tensors_in,
    wrong_elements,
)
from dbg_wire.records.numbers import NumbersQuestion, Origin, Suspect, WrongNumber
from dbg_wire.records.record import clamp

HARMLESS = frozenset({"GELU", "ReLU", "SiLU", "Sigmoid", "Tanh", "Dropout", "Identity"})
"""Classes of torch.nn that make a finite output of each finite input. Their outputs are often the largest ones, and are
not looked at, because the output before has been."""


class NotFinite(Observer):
    """Observer that looks for NaN and infinity.

    On the CPU, and with ``exact``, the numbers are read at once. On other devices the extremes are read after the step
    or the next one: the program must not wait for its device.
    """

    def __init__(self, question: NumbersQuestion, hooks: TrainingHooks) -> None:
        self._exact = question.exact
        self._exclude = question.exclude
        self._hooks = hooks
        self._late = LateValues()
        self._overflow: WrongNumber | None = None
        """The first overflow in a backward pass whose loss is scaled; the scaler may skip the step."""

    # ------------------------------------------------------------------------------------------------------ the tensors

    def output(self, module: Any, tensor: Any) -> Found | None:
        """Look at an output of a module."""
        if _is_harmless(module) or not self._is_wrong(tensor, Suspect.OUTPUT, module):
            return None
        calls = list(running_calls(sys._getframe()))
        inputs = (calls[0].args, calls[0].kwargs) if calls else None
        variables = {"_module": module, "_inputs": inputs, "_output": tensor}
        return self._found(Suspect.OUTPUT, module, tensor, variables, _origin(module, calls))

    def output_gradient(self, module: Any, gradient: Any) -> Found | None:
        """Look at the gradient of an output; the step is skipped later if a scaler finds an overflow."""
        is_known = self._overflow is not None or _is_harmless(module)
        if is_known or not self._is_wrong(gradient, Suspect.OUTPUT_GRADIENT, module):
            return None
        found = self._found(Suspect.OUTPUT_GRADIENT, module, gradient, {"_module": module, "_gradient": gradient})
        if _is_scaled():
            self._overflow = found.wrong
            return None
        return found

    def before_step(self, optimizer: Any) -> Found | None:
        """Look at the reduced gradients. If one is wrong, no scaler has skipped the step."""
        overflow, self._overflow = self._overflow, None
        if getattr(optimizer, "found_inf", None) is not None:
            # A scaler has passed its flag to a fused optimizer, whose kernel skips the step after an overflow.
            return None
        for parameter in parameters_of(optimizer):
            gradient = parameter.grad
            if gradient is not None and self._is_wrong(gradient, Suspect.GRADIENT, parameter):
                variables = {"_parameter": parameter, "_gradient": gradient}
                found = self._found(Suspect.GRADIENT, parameter, gradient, variables, (_origin_of_gradient(), ""))
                return found if overflow is None else found._replace(wrong=overflow)
        return None

    def after_step(self, optimizer: Any) -> Found | None:
        """Look at the parameters, and read what has arrived from a device."""
        for parameter in parameters_of(optimizer):
            if self._is_wrong(parameter, Suspect.PARAMETER, parameter):
                return self._found(Suspect.PARAMETER, parameter, parameter, {"_parameter": parameter})
        return self._late_wrong()

    # -------------------------------------------------------------------------------------------------------- the check

    def _is_wrong(self, tensor: Any, suspect: Suspect, owner: object) -> bool:
        """Return True if the tensor is wrong. On a device the answer is False now, and the extremes are read later."""
        floats = floats_of(tensor)
        if floats is None:
            return False
        if self._exact or floats.is_cpu:
            return not are_finite(floats) and not self._is_excluded(suspect, owner)
        self._late.add((self._hooks.step, suspect, owner), *extremes(floats))
        return False

    def _late_wrong(self) -> Found | None:
        """Return the first wrong number of the steps whose values have arrived from a device."""
        rows = [row for _, measured in self._late.read(self._hooks.step) for row in measured]
        for (step, suspect, owner), both in rows:
            is_scaled = suspect is Suspect.OUTPUT_GRADIENT and _is_scaled()
            if all(map(math.isfinite, both)) or is_scaled or self._is_excluded(suspect, owner):
                continue
            origin = Origin.UNKNOWN if suspect is Suspect.OUTPUT else Origin.COMPUTED
            if suspect is Suspect.GRADIENT:
                origin = _origin_of_gradient()
            name = self._name(suspect, owner)
            return Found(clamp(WrongNumber, step=step, suspect=suspect, name=name, origin=origin), {})
        return None

    # ------------------------------------------------------------------------------------------------------- the report

    def _found(
        self,
        suspect: Suspect,
        owner: object,
        tensor: Any,
        variables: Mapping[str, object],
        source: tuple[Origin, str] = (Origin.COMPUTED, ""),
    ) -> Found:
        """Return a wrong number. ``source`` is its origin and the name of a wrong weight."""
        facts = wrong_elements(sys.modules["torch"], floats_of(tensor))
        facts |= {"name": self._name(suspect, owner), "step": self._hooks.step}
        wrong = clamp(WrongNumber, suspect=suspect, origin=source[0], weight=source[1], **facts)
        return Found(wrong, variables)

    def _name(self, suspect: Suspect, owner: Any) -> str:
        names = self._hooks.names
        is_module = suspect in (Suspect.OUTPUT, Suspect.OUTPUT_GRADIENT)
        return names.of_module(owner) if is_module else names.of_parameter(owner)

    def _is_excluded(self, suspect: Suspect, owner: Any) -> bool:
        return any(fnmatchcase(self._name(suspect, owner), pattern) for pattern in self._exclude)


def _is_harmless(module: Any) -> bool:
    kind = type(module)
    return kind.__name__ in HARMLESS and kind.__module__.startswith("torch.nn.modules.")


def _origin(module: Any, calls: Sequence[ModuleCall]) -> tuple[Origin, str]:
    """Return the source of a wrong output, and the name of the wrong weight. ``calls`` are the running calls."""
    for name, parameter in module._parameters.items():
        if parameter is not None and not is_finite(parameter):
            return Origin.WEIGHT, name
    if not calls or not _has_wrong_input(calls[0]):
        return Origin.COMPUTED, ""
    return (Origin.BATCH if _has_wrong_input(calls[-1]) else Origin.CALLER), ""


def _origin_of_gradient() -> Origin:
    return Origin.COMPUTED if world() is None else Origin.RECEIVED


def _has_wrong_input(call: ModuleCall) -> bool:
    return any(map(is_wrong_input, tensors_in((call.args, call.kwargs))))


def _is_scaled() -> bool:
    """Return True if a gradient scaler is in use. It is searched only when there is a wrong gradient, which is rare."""
    module: Any = sys.modules.get("torch.amp.grad_scaler")
    if module is None:
        return False
    scalers = [one for one in gc.get_objects() if issubclass(type(one), module.GradScaler)]
    return any(scaler.is_enabled() and scaler._scale is not None for scaler in scalers)
