"""The figures themselves: nothing is felt without an attack, and how they are read."""

from __future__ import annotations

import pytest

from tests.attacks.attacker import Begun
from tests.attacks.conftest import Felt, StartAttack
from tests.attacks.echo import Echo
from tests.attacks.figures import classes, longest_class
from tests.attacks.target import Target

pytestmark = [pytest.mark.alone, pytest.mark.integration]


def nothing(target: Target, begun: Begun) -> None:
    """Do nothing."""
    begun()
    with target.plain() as connection:
        connection.recv(1)


def test_an_attack_that_does_nothing_is_not_felt(echo: Echo, start_attack: StartAttack, felt: Felt) -> None:
    quiet = echo.measure(1)
    with start_attack(nothing):
        felt("nothing", quiet, echo.measure(1))
    assert quiet.median < quiet.longest


def test_the_longest_class_is_the_highest_that_has_grown() -> None:
    before = {0.01: 5, 0.05: 7, 0.1: 7, float("inf"): 9}
    assert longest_class(before, before) == 0
    assert longest_class(before, {0.01: 6, 0.05: 8, 0.1: 8, float("inf"): 10}) == 10
    assert longest_class(before, {0.01: 6, 0.05: 8, 0.1: 9, float("inf"): 11}) == 100


def test_the_classes_of_a_page_are_read() -> None:
    page = 'dbg_broker_x_bucket{le="0.05"} 3\ndbg_broker_x_bucket{le="+Inf"} 4\ndbg_broker_y_bucket{le="0.05"} 5\n'
    assert classes(page, "x") == {0.05: 3, float("inf"): 4}
