"""The socket of a broker's memory: it answers each process of its user, and comes back where it was removed."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_broker.net import memory_socket
from dbg_broker.net.memory_socket import MemorySocket
from dbg_dial.memory import ask_memory, socket_directories, socket_name
from tests.support.time_unit import seconds


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


async def test_a_socket_that_a_killed_broker_left_is_replaced(runtime: Path, tmp_path: Path) -> None:
    first, second = made(runtime, tmp_path), made(runtime, tmp_path)
    await first.open()
    await second.open()
    # The older one must not remove what is not its own any more.
    first.close()
    assert await asked(runtime, tmp_path) == "True 12"
    second.close()


async def test_it_comes_back_after_the_system_has_removed_its_directory(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_socket, "LOOK_SECONDS", 0.05)
    socket = made(runtime, tmp_path)
    await socket.open()
    shutil.rmtree(runtime / "dbg-broker")
    end = asyncio.get_running_loop().time() + seconds(20)
    while await asked(runtime, tmp_path) is None:
        assert asyncio.get_running_loop().time() < end
    socket.close()


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


def test_the_directories_are_those_of_the_user_on_this_host() -> None:
    assert socket_directories({"XDG_RUNTIME_DIR": "/run/user/7"}, 7) == ("/run/user/7/dbg-broker", "/tmp/dbg-broker-7")
    assert socket_directories({"XDG_RUNTIME_DIR": "x"}, 7) == ("/run/user/7/dbg-broker", "/tmp/dbg-broker-7")
    assert socket_directories({"XDG_RUNTIME_DIR": "/x"}, 7)[0] == "/x/dbg-broker"
