"""The fixtures of the broker's unit tests, for tests that start processes."""

from __future__ import annotations

from tests.support.serving import serve
from tests.unit.broker.conftest import any_broker, broker, home, made_home

__all__ = ["any_broker", "broker", "home", "made_home", "serve"]
