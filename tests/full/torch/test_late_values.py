"""Values of tensors on a device: a watch reads them without a wait for the device, and keeps a bounded number."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbg_agent.numbers import gradient_norms, late_values, not_finite, replicas
from dbg_agent.numbers.late_values import LateValues
from dbg_agent.numbers.tensors import floats_of
from dbg_wire.records.numbers import NumbersQuestion, ReplicaGroup
from tests.support.requirements import needs_torch

pytestmark = needs_torch

STEPS = 3


def waits(question: NumbersQuestion | None) -> int:
    """Return how often the steps of a training wait for a value, with the watch of this question."""
    import torch

    from benchmarks.numbers_loop import Training, lone_watch

    watch, training = lone_watch(pytest.fail), Training(16, 1, 20)
    if question is not None:
        watch.start(question)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(STEPS):
            training.step()
    watch.end()
    return sum(event.count for event in profile.key_averages() if event.key == "aten::_local_scalar_dense")


@pytest.mark.parametrize("name", ["nan", "different", "record", "exact"])
def test_a_cheap_watch_never_waits_for_a_device(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    class OnDevice(torch.Tensor):  # type: ignore[misc]
        """A tensor on the CPU that says that it is on another device."""

        is_cpu = False

    monkeypatch.setattr(gradient_norms, "EVERY", 2)
    monkeypatch.setattr(replicas, "STATE_EVERY", 2)
    monkeypatch.setattr(not_finite, "floats_of", lambda tensor: floats_of(tensor).as_subclass(OnDevice))
    monkeypatch.setattr(replicas, "world", lambda: ReplicaGroup(ranks="0-1", size=2))
    questions = {
        "nan": NumbersQuestion(nan=True),
        "different": NumbersQuestion(different=True),
        "record": NumbersQuestion(record=str(tmp_path)),
        "exact": NumbersQuestion(nan=True, exact=True),
    }
    assert (waits(questions[name]) > waits(None)) == (name == "exact")


def test_a_program_that_ends_no_step_keeps_few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(late_values, "MAX_TENSORS", 3)
    late = LateValues()
    for number in range(5):
        late.add(number, torch.tensor(float(number)))
    assert list(late.read(1)) == [(1, [(0, [0.0]), (1, [1.0]), (2, [2.0])])]
