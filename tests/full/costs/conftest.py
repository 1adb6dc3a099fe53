"""The fixtures of the agent's unit tests, for measurements in one process."""

from __future__ import annotations

from tests.unit.agent.conftest import driver, no_breakpoints, no_callbacks_of_collections

__all__ = ["driver", "no_breakpoints", "no_callbacks_of_collections"]
