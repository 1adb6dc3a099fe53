from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from dbg_client.core.deadline import in_thread
from tests.support.time_unit import seconds

PATIENCE = seconds(10)


async def test_what_hangs_in_a_thread_is_given_up_at_the_deadline() -> None:
    enough = threading.Event()
    with pytest.raises(asyncio.TimeoutError):
        await in_thread(enough.wait, 0.05)
    enough.set()
    with pytest.raises(socket.gaierror):
        await in_thread(lambda: socket.getaddrinfo("256.256.256.256", 1, flags=socket.AI_NUMERICHOST), PATIENCE)
