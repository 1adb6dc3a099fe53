"""The seat of a port and its secrets."""

from __future__ import annotations

import pytest

from dbg_client.faces.dap.serve import Admission
from dbg_client.faces.requests import new_secret
from dbg_wire.errors import BadInput


def seat() -> tuple[Admission, list[str]]:
    """Return a seat, and the secrets that it has told."""
    told: list[str] = []
    admission = Admission(told.append)
    admission.free()
    return admission, told


@pytest.mark.parametrize("given", [{}, {"secret": None}, {"secret": "s"}, {"secret": ["s"]}, {"secret": "\udc80"}])
def test_only_the_secret_lets_in(given: dict[str, object]) -> None:
    admission, told = seat()
    with pytest.raises(BadInput):
        admission.admit(given)
    admission.admit({"secret": told[0]})


def test_a_secret_is_good_for_one_session() -> None:
    admission, told = seat()
    admission.admit({"secret": told[0]})
    with pytest.raises(BadInput):
        admission.admit({"secret": told[0]})
    admission.free()
    first, second = told
    with pytest.raises(BadInput, match="not the one"):
        admission.admit({"secret": first})
    admission.admit({"secret": second})


def test_a_guesser_changes_nothing_for_the_user() -> None:
    admission, told = seat()
    for _ in range(200):
        with pytest.raises(BadInput):
            admission.admit({"secret": "guess"})
    (secret,) = told
    admission.admit({"secret": secret})
    assert len({new_secret() for _ in range(10)}) == 10


def test_without_secrets_the_seat_alone_counts() -> None:
    admission = Admission(pytest.fail, asks=False)
    admission.free()
    admission.admit({})
    with pytest.raises(BadInput):
        admission.admit({})
    admission.free()
    admission.admit({})
