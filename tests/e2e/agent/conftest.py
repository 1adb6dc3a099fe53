"""The fixtures of the agent's unit tests, for tests that start processes."""

from __future__ import annotations

from tests.unit.agent.conftest import driver, no_breakpoints, no_callbacks_of_collections, viewer

__all__ = ["driver", "no_breakpoints", "no_callbacks_of_collections", "viewer"]
