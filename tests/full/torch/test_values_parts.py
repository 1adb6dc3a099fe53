"""Where two values differ is found through their parts, a bounded number at each step."""

from __future__ import annotations

import pytest

from tests.unit.agent.values.test_parts import first


def test_a_tensor_is_searched_by_ranges() -> None:
    torch = pytest.importorskip("torch")
    a = torch.zeros(1000, 700)
    b = a.clone()
    b[17, 5] = 0.25
    assert first({"w": a}, {"w": b}) == ("['w'][17, 5]", "0.0", "0.25")
    assert first(a.t(), b.t()) == ("[5, 17]", "0.0", "0.25")
