"""The fixtures of the client's unit tests, for tests that start processes."""

from __future__ import annotations

from tests.support.serving import serve
from tests.unit.client.conftest import environ

__all__ = ["environ", "serve"]
