"""Slow readers, floods and the shutdown, over real sockets."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from dbg_broker.net import places
from dbg_dial.waiting import within
from tests.unit.broker.peers import SECONDS, running_broker


async def test_a_storm_of_ranks_settles_without_a_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who would wait for too long are turned back before TLS, and come again one after another."""
    monkeypatch.setattr(places, "FEW_AT_ONCE", 24)
    monkeypatch.setattr(places, "FIRST_RATE", 0.0)
    ranks = 120
    async with running_broker(tmp_path, tls=True) as broker:
        words = [broker.endpoint.url, broker.tokens.rank, f"{ranks}", "0", f"{ranks}"]
        crowd = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.light_ranks", *words, stdout=asyncio.subprocess.PIPE
        )
        assert crowd.stdout is not None
        try:
            told = json.loads(await within(6 * SECONDS, crowd.stdout.readline()))
            assert len(broker.hub.links) == ranks
        finally:
            crowd.kill()
            await crowd.communicate()
    assert [name for name in told if name.startswith("timed out")] == []
    assert sum(count for name, count in told.items() if name.startswith("broken")) > 0
