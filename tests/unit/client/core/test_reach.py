from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from dbg_client.core import reach
from dbg_wire.errors import BadSecretFile, NoBroker, WrongHost
from dbg_wire.finding.endpoint import Reach
from tests.conftest import Approved
from tests.unit.client.fake_broker import TOKEN

PIN = "sha256:" + "ab" * 32


def write_rendezvous(home: Path, *, mode: int = 0o600, **changes: object) -> Path:
    document: dict[str, object] = {
        "schema": 1,
        "url": "wss://127.0.0.1:6900",
        "host": socket.gethostname(),
        "pid": 1,
        "fingerprint": PIN,
        "tokens": {"driver": TOKEN, "watcher": TOKEN[::-1]},
    }
    path = home / "broker.json"
    path.write_text(json.dumps({**document, **changes}))
    path.chmod(mode)
    return path


def find_reach(broker: str | None, variables: dict[str, str]) -> Reach:
    return reach.find_reach(broker, variables, lambda path: None)


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"DBG_HOME": str(home), **more}


def test_broker_json_is_all_that_is_needed(tmp_path: Path) -> None:
    write_rendezvous(tmp_path)

    found = find_reach(None, environ(tmp_path))

    assert (found.endpoint.port, found.endpoint.fingerprint, found.token) == (6900, PIN, TOKEN)


def test_it_is_read_anew_each_time(tmp_path: Path) -> None:
    write_rendezvous(tmp_path)
    find_reach(None, environ(tmp_path))
    write_rendezvous(tmp_path, url="wss://127.0.0.1:7000")

    assert find_reach(None, environ(tmp_path)).endpoint.port == 7000


def test_argument_then_variable_then_file(tmp_path: Path) -> None:
    write_rendezvous(tmp_path)
    variables = environ(tmp_path, DBG_BROKER="wss://127.0.0.1:7001")

    assert find_reach(None, variables).endpoint.port == 7001
    assert find_reach("wss://127.0.0.1:7002", variables).endpoint.port == 7002


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = write_rendezvous(tmp_path, mode=0o644)

    with pytest.raises(BadSecretFile, match="chmod 600") as caught:
        find_reach(None, environ(tmp_path))

    assert str(path) in str(caught.value)


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    write_rendezvous(tmp_path)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o640)

    with pytest.raises(BadSecretFile, match="token"):
        find_reach(None, environ(tmp_path, DBG_TOKEN_FILE=str(token)))
    token.chmod(0o600)
    assert find_reach(None, environ(tmp_path, DBG_TOKEN_FILE=str(token))).token == TOKEN


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    write_rendezvous(tmp_path)
    missing = str(tmp_path / "missing")

    with pytest.raises(BadSecretFile, match="missing"):
        find_reach(None, environ(tmp_path, DBG_TOKEN_FILE=missing))


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe"])
def test_a_broken_file_is_named(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "broker.json"
    path.write_bytes(text)
    path.chmod(0o600)

    with pytest.raises(BadSecretFile, match=r"broker\.json"):
        find_reach(None, environ(tmp_path))


def test_without_any_broker_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoBroker, match="dbg-broker serve"):
        find_reach(None, environ(tmp_path))


def test_the_loopback_of_another_host_is_named_at_once(tmp_path: Path) -> None:
    write_rendezvous(tmp_path, host="some-other-host")

    with pytest.raises(WrongHost, match="--listen") as caught:
        find_reach(None, environ(tmp_path))

    assert caught.value.exit_status == 4
    assert find_reach("wss://127.0.0.1:6900", environ(tmp_path)).endpoint.port == 6900


def test_a_pipe_into_which_nobody_writes_is_told_at_once(approved: Approved, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    variables = environ(tmp_path, DBG_BROKER=f"login1:6900#{PIN}", DBG_TOKEN_FILE=str(tmp_path / "token"))
    with pytest.raises(BadSecretFile) as caught:
        find_reach(None, variables)
    approved(str(caught.value))


def test_what_a_command_writes_into_a_pipe_is_the_token(tmp_path: Path) -> None:
    read, write = os.pipe()
    ready = threading.Event()

    def command() -> None:
        ready.wait()
        with os.fdopen(write, "w") as pipe:
            pipe.write(TOKEN + "\n")

    writer = threading.Thread(target=command)
    writer.start()
    threading.Timer(0.05, ready.set).start()
    variables = environ(tmp_path, DBG_BROKER=f"login1:6900#{PIN}", DBG_TOKEN_FILE=f"/dev/fd/{read}")
    assert find_reach(None, variables).token == TOKEN
    writer.join()
    os.close(read)


def test_a_device_is_no_file_of_secrets(tmp_path: Path) -> None:
    variables = environ(tmp_path, DBG_BROKER=f"login1:6900#{PIN}", DBG_TOKEN_FILE="/dev/zero")  # noqa: S106
    with pytest.raises(BadSecretFile):
        find_reach(None, variables)
