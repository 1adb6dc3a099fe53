"""Bytes that are no TLS, messages without end, and the socket of a token in memory."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode

from dbg_broker.net import websocket
from dbg_broker.net.memory_socket import MemorySocket
from dbg_broker.net.tcp import peer_name
from dbg_dial.memory import ask_memory, socket_name
from dbg_wire import limits
from tests.unit.broker.peers import SECONDS, Broker, Peer, registration, running_broker


@pytest.fixture
def runtime() -> Iterator[Path]:
    path = tempfile.mkdtemp(prefix="dbg-run-")
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


def made(runtime: Path, home: Path, *more: str) -> MemorySocket:
    directories = (*more, f"{runtime}/dbg-broker")
    return MemorySocket(directories, socket_name(str(home)), lambda pid, seconds: f"{pid > 1} {seconds:g}")


async def asked(runtime: Path, home: Path) -> str | None:
    return await asyncio.to_thread(ask_memory, str(home), {"XDG_RUNTIME_DIR": str(runtime)}, 12.0)


async def test_it_answers_until_it_is_closed_and_leaves_nothing(runtime: Path, tmp_path: Path) -> None:
    socket = made(runtime, tmp_path)
    path = await socket.open()
    assert path == f"{runtime}/dbg-broker/{socket_name(str(tmp_path))}"
    assert await asked(runtime, tmp_path) == "True 12"
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert await asked(runtime, link) == "True 12"
    assert await asked(runtime, tmp_path / "other") is None
    socket.close()
    assert await asked(runtime, tmp_path) is None
    assert list((runtime / "dbg-broker").iterdir()) == []


async def test_a_directory_of_others_is_passed_over(runtime: Path, tmp_path: Path) -> None:
    (runtime / "open").mkdir(mode=0o755)
    (runtime / "file").write_text("")
    socket = made(
        runtime, tmp_path, f"{runtime}/open", f"{runtime}/file", "/no/such/directory", f"{runtime}/{'x' * 120}"
    )
    assert await socket.open() == f"{runtime}/dbg-broker/{socket_name(str(tmp_path))}"
    socket.close()
    nowhere = MemorySocket([f"{runtime}/open"], "x.sock", lambda pid, seconds: "")
    assert await nowhere.open() is None
    nowhere.close()


@pytest.mark.parametrize(
    ("address", "name"),
    [(("10.0.0.1", 5), "10.0.0.1:5"), (("::1", 5, 0, 0), "[::1]:5"), ("", "?"), (None, "?")],
)
def test_addresses_are_written_as_people_do(address: object, name: str) -> None:
    assert peer_name(address) == name


async def test_what_is_no_tls_ends_its_connection_and_counts_as_a_failure(tmp_path: Path) -> None:
    async with running_broker(tmp_path, tls=True) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        assert await broker.terminal()
        assert broker.hub.connections.meters.failures == 1


KEY = registration().identity.key
PART = 512 * limits.KIB


async def send_part(peer: Peer, size: int) -> None:
    """Send the first ``size`` bytes of a message whose header announces the largest size allowed."""
    whole = Frame(Opcode.TEXT, bytes(limits.MAX_FRAME_BYTES)).serialize(mask=True)
    peer.websocket.transport.write(whole[:size])
    await asyncio.sleep(0)


async def test_parts_of_fragmented_messages_count_too(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MESSAGE_SECONDS", 0.2)
    rank = await broker.rank()
    rank.websocket.transport.write(Frame(Opcode.TEXT, bytes(1000), fin=False).serialize(mask=True))
    assert (await rank.closed())[0] == 4001


async def test_all_parts_together_are_bounded(broker: Broker) -> None:
    broker.hub.connections.unfinished.most = 4 * PART
    honest = await broker.rank(99)
    await send_part(honest, 20_000)
    for number in range(12):
        await send_part(await broker.rank(number), PART + 1000 * number)
    await broker.left(lambda hub: len(hub.ranks.links) == 4)
    assert KEY.replace("gpu013:0/8800", "gpu013:99/8899") in broker.hub.ranks.links
    assert broker.hub.connections.unfinished.size <= 4 * PART
