"""The servers of NATS and the brokers of the full tier."""

from __future__ import annotations

from tests.full.cluster.conftest import brokers, nats, tokens

__all__ = ["brokers", "nats", "tokens"]
