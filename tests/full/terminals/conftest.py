"""The fixtures of the client's unit tests, for tests that start terminals on a fake broker."""

from __future__ import annotations

from tests.unit.client.conftest import environ

__all__ = ["environ"]
