"""Fixtures that several of these tests share."""

from __future__ import annotations

from tests.e2e.conftest import broker, directory, proxy

__all__ = ["broker", "directory", "proxy"]
