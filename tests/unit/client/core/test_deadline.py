from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest

from dbg_client.core import patience
from dbg_client.core.patience import in_thread, read_in_thread
from dbg_dial.find import Opening
from dbg_wire.errors import SilentFile
from tests.conftest import Approved
from tests.support.time_unit import seconds

PATIENCE = seconds(10)


async def test_what_hangs_in_a_thread_is_given_up_at_the_deadline() -> None:
    enough = threading.Event()
    with pytest.raises(asyncio.TimeoutError):
        await in_thread(enough.wait, 0.05)
    enough.set()
    with pytest.raises(socket.gaierror):
        await in_thread(lambda: socket.getaddrinfo("256.256.256.256", 1, flags=socket.AI_NUMERICHOST), PATIENCE)


async def test_a_file_that_hangs_is_named_and_a_thread_that_comes_late_has_its_time(
    approved: Approved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enough = threading.Event()

    def read(opening: Opening) -> bool:
        opening("/home/me/groups")
        return enough.wait()

    with pytest.raises(SilentFile) as caught:
        await read_in_thread(read, 0.01)
    approved(str(caught.value))
    enough.set()

    def begin_late(call: Callable[[], object], tell: Callable[[object, None], object]) -> None:
        threading.Timer(0.1, lambda: tell(call(), None)).start()

    monkeypatch.setattr(patience, "begin", begin_late)
    assert await read_in_thread(lambda opening: "read", 0.01) == "read"
