"""The kernel, files and other threads below a connection; a connection step by step and as one look."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import select
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbg_command.home import user_name, watch_growth, write_whole
from dbg_dial import tcp
from dbg_dial.dial import BrokerWebSocket, first_to_connect
from dbg_dial.endpoint import Endpoint, Route
from dbg_dial.home import kernel_name
from dbg_dial.rank_list import fetch_rank_list
from dbg_dial.tcp import OwnSocket, connected, within
from dbg_wire.errors import (
    BrokerUnreachable,
    NotABroker,
    PeerError,
    WrongCertificate,
    WrongToken,
    WrongVersion,
)
from tests.support import fake_brokers as fake
from tests.support.fake_brokers import Answer, FakeBroker, Impostor
from tests.support.reach import PIN, TOKENS
from tests.support.time_unit import seconds


async def transport_of(connected: socket.socket) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=connected)
    return transport


async def test_dialled_socket_sends_small_frames_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = await connected((socket.AF_INET, listener.getsockname()))
        transport = await transport_of(sock)
        kernels = transport.get_extra_info("socket")
        assert kernels.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert bool(kernels.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) == 1
        transport.close()


@pytest.mark.parametrize("turns", range(8))
async def test_cancelled_connection_leaves_no_socket_open(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def make(*arguments: int) -> OwnSocket:
        one = OwnSocket(*arguments)
        made.append(one)
        return one

    monkeypatch.setattr(tcp, "OwnSocket", make)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connecting = asyncio.ensure_future(connected((socket.AF_INET, listener.getsockname()), seconds(10)))
        for _ in range(turns):
            await asyncio.sleep(0)
        was_cancelled = connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
    if was_cancelled:
        assert {sock.fileno() for sock in made} <= {-1}
    else:
        connecting.result().close()


def test_socket_does_not_close_a_descriptor_that_the_program_reused(tmp_path: Path) -> None:
    near, far = socket.socketpair()
    own = OwnSocket(fileno=near.detach())
    with far, (tmp_path / "theirs").open("w+b", buffering=0) as theirs:
        number = own.fileno()
        os.dup2(theirs.fileno(), number)
        assert not own.is_open()
        for use in (lambda: own.send(b"x"), lambda: own.sendmsg([b"x"]), lambda: own.recv(1)):
            with pytest.raises(OSError, match="closed this socket"):
                use()
        own.close()
        assert os.fstat(number).st_ino == os.fstat(theirs.fileno()).st_ino
        os.close(number)
        assert theirs.read() == b""


PATIENCE = seconds(10)


async def test_deadline_cancels_the_awaitable_and_no_seconds_mean_no_deadline() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await within(0.01, never)
    assert never.cancelled()
    assert await within(None, asyncio.sleep(0, "answer")) == "answer"


async def test_cancellation_at_the_moment_of_the_answer_is_not_lost() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(within(PATIENCE, answer))
    await asyncio.sleep(0)
    answer.set_result(None)
    # The answer is set, and the task that waits for it has not gone on yet.
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)


TOKEN = TOKENS["driver"]


def at(port: int, fingerprint: str | None) -> Route:
    endpoint = Endpoint(host="127.0.0.1", port=port, fingerprint=fingerprint)
    return Route(endpoint=endpoint, token=TOKEN, sources={})


async def test_connection_steps_end_with_received_messages() -> None:
    answer = fake.accept_and_send(fake.frame(fake.TEXT, b"one"), fake.frame(fake.TEXT, b"two"))
    with FakeBroker(answer) as broker:
        websocket = BrokerWebSocket(at(broker.port, broker.fingerprint).endpoint, "/client")
        assert (await websocket.secure(await local(broker.port))).startswith("TLS")
        assert websocket.compare() == broker.fingerprint
        await websocket.present(TOKEN)
        assert [await websocket.recv(), await websocket.recv()] == ["one", "two"]
        websocket.abort()


async def local(port: int) -> socket.socket:
    return await connected((socket.AF_INET, ("127.0.0.1", port)))


async def test_impostor_receives_nothing_if_steps_are_repeated_or_skipped() -> None:
    with Impostor(0, "tls") as impostor:
        websocket = BrokerWebSocket(at(impostor.port, PIN).endpoint, "/client")
        await websocket.secure(await local(impostor.port))
        for _ in range(2):
            with pytest.raises(WrongCertificate):
                websocket.compare()
            with pytest.raises(WrongCertificate):
                await websocket.present(TOKEN)
        websocket.abort()
    assert impostor.heard() == [b""]


def test_file_is_replaced_as_a_whole_with_the_given_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o666)
    before = path.open(encoding="utf-8")

    write_whole(path, "né", lasting=True)

    with before:
        assert before.read() == "old"
    assert path.read_text(encoding="utf-8") == "né"
    assert path.stat().st_mode & 0o777 == 0o600
    write_whole(path, b"\xff", mode=0o664)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"\xff", 0o664)


def test_failed_write_leaves_no_file_and_long_names_work(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(folder, "text")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "file", "\udcff")
    assert list(tmp_path.iterdir()) == [folder]
    write_whole(folder / ("n" * 255), "text")
    assert [len(path.name) for path in folder.iterdir()] == [255]


RANKS = [{"address": f"gpu013:{number}"} for number in range(3)]
WELCOME = fake.message(type="welcome")


async def look(answer: Answer, wait: float = 10) -> list[dict[str, object]]:
    with FakeBroker(answer) as broker:
        reach = at(broker.port, broker.fingerprint)
        return await fetch_rank_list(reach, "me", connect_seconds=seconds(10), seconds=seconds(wait))


def page(ranks: list[dict[str, str]], *, last: bool) -> bytes:
    return fake.message(type="snapshot", ranks=ranks, last=last)


async def test_rank_list_is_read_from_pages_fragments_and_long_frames() -> None:
    ping = fake.frame(0x9, b"dbg")
    pages = fake.accept_and_send(WELCOME, page(RANKS[:2], last=False), ping, page(RANKS[2:], last=True))
    assert await look(pages) == RANKS
    text = json.dumps({"type": "snapshot", "ranks": RANKS, "last": True}).encode()
    parts = bytes([0x1, 5]) + text[:5] + bytes([0x80, len(text) - 5]) + text[5:]
    long = json.dumps({"type": "snapshot", "ranks": RANKS, "last": True, "more": "x" * 70_000}).encode()
    long_frame = bytes([0x81, 127]) + struct.pack("!Q", len(long)) + long
    assert await look(fake.accept_and_send(parts)) == await look(fake.accept_and_send(long_frame)) == RANKS


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fake.answer_status("401 Unauthorized", "no"), WrongToken),
        (fake.answer_status("426 Upgrade Required", "version 7"), WrongVersion),
        (fake.flood_headers, NotABroker),
        (fake.accept_and_send(fake.message(type="refusal")), PeerError),
        (fake.accept_and_send(fake.frame(0x8, b"")), BrokerUnreachable),
        (fake.accept_and_send(bytes([0x81, 127]) + struct.pack("!Q", 1 << 40)), BrokerUnreachable),
        (fake.accept_and_send(fake.frame(fake.TEXT, b"{")), NotABroker),
    ],
)
async def test_invalid_rank_list_is_an_error(answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error):
        await look(answer)


@pytest.mark.parametrize("answer", [fake.stay_silent, fake.accept_and_send(WELCOME)])
async def test_silent_broker_is_given_up_after_the_time_limit(answer: Answer) -> None:
    with pytest.raises(BrokerUnreachable):
        await look(answer, 0.2)


def test_user_name_has_the_short_name_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="login1.cluster.example"))
    assert user_name() == f"{getpass.getuser()}@login1"
    monkeypatch.setenv("LOGNAME", "")
    monkeypatch.setenv("USER", "ada")
    assert user_name() == "ada@login1"


def test_kernel_name_is_boot_and_namespace_or_none_if_hidden(tmp_path: Path) -> None:
    kernel = kernel_name()
    assert kernel is not None
    boot, _, namespace = kernel.partition("/")
    assert len(boot) == 36
    assert namespace == str(Path("/proc/self/ns/pid").readlink()).partition("[")[2].rstrip("]")
    assert kernel_name(str(tmp_path)) is None


def has_event(watch: int) -> bool:
    if not select.select([watch], [], [], 0)[0]:
        return False
    os.read(watch, 4096)
    return True


def test_growth_of_a_file_or_directory_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("begin")
    watch, of_directory = watch_growth(str(path)), watch_growth(str(tmp_path))
    assert watch is not None
    assert of_directory is not None
    assert not has_event(watch)
    path.write_text("more")
    assert has_event(watch)
    (tmp_path / "new").touch()
    assert has_event(of_directory)
    (tmp_path / "new").rename(tmp_path / "renamed")
    assert has_event(of_directory)
    for each in (watch, of_directory):
        os.close(each)
    assert watch_growth(str(tmp_path / "missing")) is None


async def test_silent_addresses_share_one_time_limit() -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        # The system answers no more of those who knock once its queue is full.
        for _ in range(3):
            knocking = stack.enter_context(socket.socket())
            knocking.setblocking(False)
            knocking.connect_ex(listener.getsockname())
        found = [(socket.AF_INET, listener.getsockname())] * 8
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            await first_to_connect(found, 10.0, asyncio.get_running_loop().time() + 0.2)
        assert time.monotonic() - start < 8 * 0.2 / 2
