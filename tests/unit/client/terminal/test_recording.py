"""Recordings of sessions: the file is an asciicast of version 2, and a full disk ends nothing but the file."""

from __future__ import annotations

import json
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_client.terminal.recording import Recording
from dbg_wire.errors import BadInput
from tests.conftest import Approved

SIZE = (24, 80)


def read(path: Path) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """Return the header and the events without their times, which never go back."""
    header, *events = map(json.loads, path.read_text(encoding="ascii").splitlines())
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    return header, [(kind, data) for _, kind, data in events]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (lambda to: to.shown(b"a\x1b[1m\r\n"), [("o", "a\x1b[1m\r\n")]),
        (lambda to: (to.shown("é".encode()[:1]), to.shown("é".encode()[1:])), [("o", "é")]),
        (lambda to: to.shown(b"\xff"), [("o", "\ufffd")]),
        (lambda to: (to.shown("\x9b\u202e"), to.shown("")), [("o", "\x9b\u202e")]),
        (lambda to: (to.shown(b"x"), to.resized()), [("o", "x"), ("r", "80x24")]),
    ],
    ids=["output", "cut character", "no UTF-8", "controls", "another size"],
)
def test_the_file_contains_the_shown_output(
    tmp_path: Path, record: Callable[[Recording], object], expected: list[tuple[str, str]]
) -> None:
    path = tmp_path / "session.cast"
    recording = Recording(str(path), lambda: SIZE)
    record(recording)
    assert recording.close() == ""
    header, events = read(path)
    assert (header["version"], header["width"], header["height"]) == (2, 80, 24)
    assert type(header["timestamp"]) is int
    assert events == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_is_never_replaced(tmp_path: Path, approved: Approved) -> None:
    path = tmp_path / "session.cast"
    path.write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("session.cast", "link", "no/such"):
        with pytest.raises(BadInput) as caught:
            Recording(str(tmp_path / name), lambda: SIZE)
        approved(str(caught.value), name)
    assert path.read_text() == "mine"
    assert not (tmp_path / "target").exists()


def test_a_full_disk_ends_the_recording(tmp_path: Path, approved: Approved) -> None:
    path = tmp_path / "session.cast"
    recording = Recording(str(path), lambda: SIZE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        for number in range(100):
            recording.shown(f"{number:3}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    approved(recording.close())
    _, *events, _ = path.read_text(encoding="ascii").split("\n")
    assert 0 < len(events) < 100
