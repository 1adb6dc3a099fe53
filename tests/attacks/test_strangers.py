"""Attacks of those who have no token: what the others feel, and that a driver and a rank still get in."""

from __future__ import annotations

import pytest

from tests.attacks import strangers
from tests.attacks.conftest import Felt, StartAttack
from tests.attacks.echo import Echo
from tests.support.time_unit import seconds

pytestmark = [pytest.mark.alone, pytest.mark.integration]


def test_connections_without_a_word(echo: Echo, start_attack: StartAttack, felt: Felt) -> None:
    quiet = echo.measure(1)
    with start_attack(strangers.connects):
        felt("connections that say nothing", quiet, echo.measure(2))
        assert echo.seconds_to_connect() < seconds(5)
