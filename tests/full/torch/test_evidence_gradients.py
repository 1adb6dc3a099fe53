"""Parameters of a DDP model that got no gradient, told while another thread looks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dbg_agent.evidence.gradients import MODULE, lacking_gradients
from dbg_agent.evidence.stacks import seen_threads
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds


def look(model: Any) -> str:
    """Return what another thread sees, while this one has the model as a variable."""
    found: list[str] = []
    looks = threading.Thread(target=lambda: found.append(lacking_gradients(seen_threads(None))), name="dbg-agent-looks")
    looks.start()
    looks.join(seconds(20))
    assert model is not None
    return found[0]


@needs_torch
def test_parameters_without_a_gradient_are_named_if_others_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip(MODULE)
    monkeypatch.setattr("dbg_agent.evidence.gradients.MAX_SECONDS", 60.0)

    class DistributedDataParallel(torch.nn.Module):  # type: ignore[misc] # torch is imported here alone
        __module__ = MODULE

        def __init__(self) -> None:
            super().__init__()
            self.module = torch.nn.ModuleDict({"body": torch.nn.Linear(2, 2), "head": torch.nn.Linear(2, 2)})
            self.module["frozen"] = torch.nn.Linear(2, 2).requires_grad_(False)

        def __getattr__(self, name: str) -> Any:
            if threading.current_thread().name.startswith("dbg-agent"):
                raise AssertionError(name)
            return super().__getattr__(name)

    model = DistributedDataParallel()
    assert look(model) == ""
    model.module["body"](torch.ones(1, 2)).sum().backward()
    assert look(model).startswith("2 of 4 parameters ")
    assert look(model).endswith(" head.weight, head.bias")
    model.zero_grad()
    assert look(model) == ""
