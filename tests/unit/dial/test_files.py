"""Files, the kernel's and the user's names, one look at a broker, and the wait for the next one."""

from __future__ import annotations

import getpass
import json
import os
import select
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbg_dial.blocking import NotABroker, glance
from dbg_dial.files import directory_in_memory, watch_growth, write_whole
from dbg_dial.kernel import kernel_name, user_name
from dbg_dial.waiting import HANDOVER_SECONDS, PAUSE_SECONDS, SHUTDOWN, Handover
from dbg_wire.errors import (
    BrokerUnreachable,
    DbgError,
    PeerError,
    WrongToken,
    WrongVersion,
)
from dbg_wire.finding.endpoint import Endpoint, Reach
from tests.support import fake_brokers as fake
from tests.support.fake_brokers import Answer, FakeBroker
from tests.support.reach import TOKENS
from tests.support.time_unit import seconds


def test_a_file_is_replaced_as_a_whole_and_its_mode_is_the_one_given(tmp_path: Path) -> None:
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


def test_nothing_is_left_of_a_write_that_fails_and_a_name_may_be_long(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(folder, "text")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "file", "\udcff")
    assert list(tmp_path.iterdir()) == [folder]
    write_whole(folder / ("n" * 255), "text")
    assert [len(path.name) for path in folder.iterdir()] == [255]


def test_a_directory_in_memory_is_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "runtime"
    own.mkdir()
    folder = directory_in_memory({"XDG_RUNTIME_DIR": str(own)})
    assert folder.parent == own
    assert folder.stat().st_mode & 0o777 == 0o700
    elsewhere = directory_in_memory({"XDG_RUNTIME_DIR": "relative"})
    assert str(elsewhere).startswith(("/dev/shm/", tempfile.gettempdir()))
    elsewhere.rmdir()


RANKS = [{"address": f"gpu013:{number}"} for number in range(3)]
WELCOME = fake.message(type="welcome")


def reach(port: int, fingerprint: str | None) -> Reach:
    endpoint = Endpoint(host="127.0.0.1", port=port, secure=fingerprint is not None, fingerprint=fingerprint)
    return Reach(endpoint=endpoint, token=TOKENS["driver"], sources={})


def look(answer: Answer, wait: float = 10) -> list[dict[str, object]]:
    with FakeBroker(answer) as broker:
        return glance(reach(broker.port, broker.fingerprint), "me", connect_seconds=seconds(10), seconds=seconds(wait))


def page(ranks: list[dict[str, str]], *, last: bool) -> bytes:
    return fake.message(type="snapshot", ranks=ranks, last=last)


def test_all_pages_of_the_list_are_read_in_parts_and_with_many_bytes() -> None:
    ping = fake.frame(0x9, b"dbg")
    assert look(fake.accept_and_send(WELCOME, page(RANKS[:2], last=False), ping, page(RANKS[2:], last=True))) == RANKS
    text = json.dumps({"type": "snapshot", "ranks": RANKS, "last": True}).encode()
    parts = bytes([0x1, 5]) + text[:5] + bytes([0x80, len(text) - 5]) + text[5:]
    long = json.dumps({"type": "snapshot", "ranks": RANKS, "last": True, "more": "x" * 70_000}).encode()
    long_frame = bytes([0x81, 127]) + struct.pack("!Q", len(long)) + long
    assert look(fake.accept_and_send(parts)) == look(fake.accept_and_send(long_frame)) == RANKS


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fake.answer_status("401 Unauthorized", "no"), WrongToken),
        (fake.answer_status("426 Upgrade Required", "version 7"), WrongVersion),
        (fake.flood_headers, NotABroker),
        (fake.accept_and_send(fake.message(type="refusal")), PeerError),
        (fake.accept_and_send(fake.frame(0x8, b"")), BrokerUnreachable),
        (fake.accept_and_send(bytes([0x81, 127]) + struct.pack("!Q", 1 << 40)), NotABroker),
        (fake.accept_and_send(fake.frame(fake.TEXT, b"{")), ValueError),
    ],
)
def test_what_is_no_list_is_an_error(answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error):
        look(answer)


@pytest.mark.parametrize("answer", [fake.say_nothing, fake.accept_and_send(WELCOME)])
def test_a_broker_that_says_nothing_is_not_waited_for(answer: Answer) -> None:
    with pytest.raises((DbgError, OSError)):
        look(answer, 0.2)


def test_the_name_is_the_users_at_the_short_name_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="login1.cluster.example"))
    assert user_name() == f"{getpass.getuser()}@login1"
    monkeypatch.setenv("LOGNAME", "")
    monkeypatch.setenv("USER", "ada")
    assert user_name() == "ada@login1"


def test_a_kernels_name_is_boot_and_namespace_and_one_that_hides_it_is_nobodys(tmp_path: Path) -> None:
    kernel = kernel_name()
    assert kernel is not None
    boot, _, namespace = kernel.partition("/")
    assert len(boot) == 36
    assert namespace == str(Path("/proc/self/ns/pid").readlink()).partition("[")[2].rstrip("]")
    assert kernel_name(str(tmp_path)) is None


def is_told(watch: int) -> bool:
    if not select.select([watch], [], [], 0)[0]:
        return False
    os.read(watch, 4096)
    return True


def test_what_grows_in_a_file_or_a_directory_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("begin")
    watch, of_directory = watch_growth(str(path)), watch_growth(str(tmp_path))
    assert watch is not None
    assert of_directory is not None
    assert not is_told(watch)
    path.write_text("more")
    assert is_told(watch)
    (tmp_path / "new").touch()
    assert is_told(of_directory)
    (tmp_path / "new").rename(tmp_path / "renamed")
    assert is_told(of_directory)
    for each in (watch, of_directory):
        os.close(each)
    assert watch_growth(str(tmp_path / "missing")) is None


@pytest.mark.parametrize(
    ("code", "is_expected"),
    [(SHUTDOWN, True), (1006, True), (None, True), (1000, False), (1002, False), (4000, False), (4003, False)],
)
def test_the_next_broker_is_expected_for_some_seconds_after_an_end_that_announces_it(
    code: int | None, is_expected: bool
) -> None:
    handover = Handover()
    assert handover.bound(2.0, 0.5) == 2.0
    handover.ended(code, 100.0)
    assert handover.bound(2.0, 100.0) == (PAUSE_SECONDS if is_expected else 2.0)
    assert handover.bound(0.1, 100.0) == 0.1
    assert handover.bound(2.0, 100.0 + HANDOVER_SECONDS) == 2.0
