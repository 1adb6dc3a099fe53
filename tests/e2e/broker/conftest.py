"""The fixtures of the broker's unit tests, for tests that start processes."""

from __future__ import annotations

from tests.unit.broker.conftest import any_broker, broker, home, made_home, serve

__all__ = ["any_broker", "broker", "home", "made_home", "serve"]
