"""The seat of a port and its secrets."""

from __future__ import annotations

import pytest

from dbg_client.faces.dap.serve import Admission, random_secret
from dbg_wire.errors import BadInput


def seat() -> tuple[Admission, list[str]]:
    """Return a seat whose secrets are s1, s2 and so on, and those that it has told."""
    told: list[str] = []
    admission = Admission(told.append, lambda: f"s{len(told) + 1}")
    admission.free()
    return admission, told


@pytest.mark.parametrize("given", [{}, {"secret": None}, {"secret": "s2"}, {"secret": ["s1"]}, {"secret": "\udc80"}])
def test_only_the_secret_lets_in(given: dict[str, object]) -> None:
    admission, _ = seat()
    with pytest.raises(BadInput):
        admission.admit(given)
    admission.admit({"secret": "s1"})


def test_a_secret_is_good_for_one_session() -> None:
    admission, told = seat()
    admission.admit({"secret": "s1"})
    with pytest.raises(BadInput, match="another IDE is attached"):
        admission.admit({"secret": "s1"})
    admission.free()
    assert told == ["s1", "s2"]
    with pytest.raises(BadInput, match="not the one"):
        admission.admit({"secret": "s1"})
    admission.admit({"secret": "s2"})


def test_a_guesser_changes_nothing_for_the_user() -> None:
    admission, told = seat()
    for _ in range(200):
        with pytest.raises(BadInput):
            admission.admit({"secret": "guess"})
    assert told == ["s1"]
    admission.admit({"secret": "s1"})
    assert len({random_secret() for _ in range(10)}) == 10


def test_without_secrets_the_seat_alone_counts() -> None:
    admission = Admission(pytest.fail, None)
    admission.free()
    admission.admit({})
    with pytest.raises(BadInput, match="another IDE is attached"):
        admission.admit({})
    admission.free()
    admission.admit({})
