"""What the kernel does for a connection, and knows about it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from dbg_dial import tcp
from dbg_dial.tcp import OwnSocket, connected, seconds_since_ack


async def transport_of(connected: socket.socket) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=connected)
    return transport


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


async def test_kernel_that_answers_is_not_silent_although_its_process_is() -> None:
    near, far = pair()
    transport = await transport_of(near)
    # The test measures time, so some has to pass.
    threading.Event().wait(0.15)
    before = seconds_since_ack(transport)
    wrote = time.monotonic()
    transport.write(b"the far process never reads this, and its kernel acknowledges it")
    after = seconds_since_ack(transport)
    passed = time.monotonic() - wrote
    transport.close()
    far.close()
    assert 0.1 < before < 10
    # Without an acknowledgement `after` would contain all of the time before the write.
    assert after < passed + before / 2


async def test_silence_that_can_not_be_told_is_none() -> None:
    near, far = socket.socketpair()
    transport = await transport_of(near)
    assert seconds_since_ack(transport) == 0.0
    transport.close()
    far.close()


@pytest.mark.parametrize("keep_asking", [False, True])
async def test_what_is_dialled_sends_small_frames_at_once(keep_asking: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = await connected((socket.AF_INET, listener.getsockname()), keep_asking=keep_asking)
        transport = await transport_of(sock)
        kernels = transport.get_extra_info("socket")
        assert kernels.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert bool(kernels.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) is keep_asking
        transport.close()


async def test_a_connection_that_is_given_up_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def make(*arguments: int) -> OwnSocket:
        one = OwnSocket(*arguments)
        made.append(one)
        return one

    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # With the queue full, the kernel answers no connection.
        with socket.create_connection(full.getsockname()):
            monkeypatch.setattr(tcp, "OwnSocket", make)
            connecting = asyncio.ensure_future(connected((socket.AF_INET, full.getsockname())))
            await asyncio.sleep(0)
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
    assert [sock.fileno() for sock in made] == [-1]


def test_a_socket_leaves_a_number_to_the_file_that_the_program_has_opened_under_it(tmp_path: Path) -> None:
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
