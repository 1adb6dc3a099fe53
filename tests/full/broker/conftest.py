"""The home of a test's broker; the directory does not exist yet."""

from __future__ import annotations

from tests.unit.broker.conftest import home

__all__ = ["home"]
