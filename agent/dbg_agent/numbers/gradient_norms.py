"""The norms of all gradients at the most recent steps, for a chart."""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import Any

from dbg_agent.numbers.hooks import Observer, TrainingHooks
from dbg_agent.numbers.late_values import LateValues
from dbg_agent.numbers.tensors import floats_of, parameters_of
from dbg_wire.records.numbers import MAX_NORMS, GradientNorm
from dbg_wire.records.record import clamp

EVERY = 10
"""Number of steps between two points of the chart. A norm takes 0.7 % of a step on a CPU."""


class GradientNorms(Observer):
    """Observer that keeps the norms of the last steps."""

    sees_tensors = False

    def __init__(self, hooks: TrainingHooks) -> None:
        self._hooks = hooks
        self._late = LateValues()
        self.recent: deque[GradientNorm] = deque(maxlen=MAX_NORMS)

    def before_step(self, optimizer: Any) -> None:
        """Measure the reduced gradients."""
        if self._hooks.step % EVERY:
            return
        torch: Any = sys.modules["torch"]
        gradients = (one.grad for one in parameters_of(optimizer) if one.grad is not None)
        floats = [one for one in map(floats_of, gradients) if one is not None]
        if floats:
            norms = [norm.to(floats[0].device, torch.float32) for norm in torch._foreach_norm(floats)]
            self._late.add(None, torch.linalg.vector_norm(torch.stack(norms)))

    def after_step(self, _optimizer: Any) -> None:
        """Keep the norms that have arrived; the norm of a wrong gradient is not one."""
        for step, rows in self._late.read(self._hooks.step):
            for _, (norm,) in rows:
                if math.isfinite(norm):
                    self.recent.append(clamp(GradientNorm, step=step, norm=norm))
