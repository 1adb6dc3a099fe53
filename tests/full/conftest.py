"""Fixtures that several of these tests share."""

from __future__ import annotations

from tests.e2e.conftest import broker, directory, events, proxy
from tests.support.serving import serve

__all__ = ["broker", "directory", "events", "proxy", "serve"]
