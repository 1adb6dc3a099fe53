"""The fixtures of the broker's unit tests, for tests that take longer or start processes."""

from __future__ import annotations

from tests.unit.broker.conftest import any_broker, broker, home, made_home

__all__ = ["any_broker", "broker", "home", "made_home"]
