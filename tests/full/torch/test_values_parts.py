"""Where two arrays or tensors differ is found through their parts, a bounded number at each step."""

from __future__ import annotations

import pytest

from dbg_agent.values.parts import parts_of
from tests.unit.agent.values.test_parts import first


def test_a_tensor_is_searched_by_ranges() -> None:
    torch = pytest.importorskip("torch")
    a = torch.zeros(1000, 700)
    b = a.clone()
    b[17, 5] = 0.25
    assert first({"w": a}, {"w": b}) == ("['w'][17, 5]", "0.0", "0.25")
    assert first(a.t(), b.t()) == ("[5, 17]", "0.0", "0.25")


def test_an_array_is_searched_and_a_number_of_numpy_has_no_parts() -> None:
    np = pytest.importorskip("numpy")
    assert first(np.zeros((300, 400)), np.eye(300, 400, 399)) == ("[0, 399]", "0.0", "1.0")
    assert first([np.float32([0.1, 0.5])], [np.float32([0.1000010, 0.5])]) == ("[0][0]", "0.1", "0.100001")
    assert parts_of(np.float32(1), [], exact=False, seconds=5) == []
