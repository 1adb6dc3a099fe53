"""DBG_LOG has a rank log to a file, and no failure of that file disturbs the training."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_agent.process import log
from dbg_agent.process.log import MAX_FILE, Logger, hide, open_log
from dbg_wire.codec import LogForm
from dbg_wire.messages import Reply
from tests.conftest import Approved

logger = Logger("dbg_agent.test")
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} gpu013:5 (\d+) (INFO|DEBUG) dbg_agent\.test: (.*)")


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Leave this process without a log."""
    yield
    open_log({}, "?")


def start(path: Path | str) -> None:
    """Log to a file."""
    open_log({"DBG_LOG": str(path)}, "gpu013:5")


def lines(path: Path) -> list[tuple[str, str, str]]:
    """Return process, level and event of each line."""
    found = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(found)
    return [(line[1], line[2], line[3]) for line in found if line is not None]


def test_a_line_names_rank_process_level_and_logger(tmp_path: Path) -> None:
    start(tmp_path / "log")
    logger.info("stop %d ends", 3)
    logger.debug("is %s", "at work")
    pid = str(os.getpid())
    assert lines(tmp_path / "log") == [(pid, "INFO", "stop 3 ends"), (pid, "DEBUG", "is at work")]


def test_the_file_is_private_even_if_it_existed(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        (tmp_path / "old").touch(0o666)
        start(tmp_path / "new")
        start(tmp_path / "old")
    finally:
        os.umask(old)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "old")] == [0o600, 0o600]


@pytest.mark.parametrize("kind", ["link", "pipe", "pipe with a reader", "folder", "none/log", "device", "\x1b\0"])
def test_a_path_that_is_no_file_of_ours_is_refused_in_one_line(
    approved: Approved, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path: Path | str = tmp_path / kind
    if kind == "link":
        (tmp_path / "aim").touch()
        (tmp_path / kind).symlink_to(tmp_path / "aim")
    elif kind.startswith("pipe"):
        os.mkfifo(path)
    elif kind == "folder":
        (tmp_path / kind).mkdir()
    elif kind == "device":
        path = Path("/dev/null")
    elif "\0" in kind:
        path = kind
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if kind == "pipe with a reader" else None
    start(path)
    logger.info("unheard")
    assert not logger.is_on
    # Python's own words for a null byte differ from release to release.
    approved(re.sub(r"x00: .*", "x00: …", capsys.readouterr().err))
    if kind == "link":
        assert (tmp_path / "aim").read_text() == ""
    if reader is not None:
        os.close(reader)


def test_the_file_grows_only_to_its_bound(
    approved: Approved, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.touch()
    os.truncate(path, MAX_FILE - 200)
    start(path)
    logger.info("%s", "x" * 100)
    size = path.stat().st_size
    assert MAX_FILE - 200 < size <= MAX_FILE
    logger.info("%s", "x" * 100)
    logger.info("short")
    assert path.stat().st_size == size
    approved(capsys.readouterr().err)


def test_lines_are_bounded_and_cannot_control_a_terminal(tmp_path: Path) -> None:
    start(tmp_path / "log")
    logger.info("%s", "\x1b[2J\n\udcff" + "x" * 100_000)
    [(_, _, event)] = lines(tmp_path / "log")
    assert event.startswith("\\x1b[2J\\n\\udcff")
    assert len(event) <= log.MAX_LINE + 1


def test_no_line_holds_a_token_or_typed_text(tmp_path: Path) -> None:
    start(tmp_path / "log")
    hide("correct-horse-battery")
    hide(None)
    logger.info("with correct-horse-battery in it")
    logger.debug("received %s", LogForm(Reply(prompt=1, generation=2, text="hunter2")))
    events = [event for _, _, event in lines(tmp_path / "log")]
    assert events == ["with <token> in it", "received reply prompt=1 generation=2 text=<7 characters>"]


class _Hostile:
    def __str__(self) -> str:
        raise RuntimeError("from the program")


def test_logging_never_raises(tmp_path: Path) -> None:
    start(tmp_path / "log")
    logger.info("%s", _Hostile())
    logger.info("%d", "no number")
    logger.info("%s %s", *["too few"])
    assert lines(tmp_path / "log") == []
    logger.info("and goes on")
    assert len(lines(tmp_path / "log")) == 1


class Alarm(Exception):
    """Raised by a program's handler."""


def ring(number: int, frame: object) -> None:
    raise Alarm


class Rings:
    """A stderr in whose write a signal comes, or that fails by itself."""

    def __init__(self, fails: type[Exception] | None = None) -> None:
        self._fails = fails

    def write(self, text: str) -> int:
        if self._fails is not None:
            raise self._fails
        signal.raise_signal(signal.SIGALRM)
        return len(text)


def test_an_error_of_a_signal_handler_during_a_write_reaches_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former = signal.signal(signal.SIGALRM, ring)
    try:
        monkeypatch.setattr(sys, "stderr", Rings())
        with pytest.raises(Alarm):
            log.write_stderr("waiting")
        monkeypatch.setattr(sys, "stderr", Rings(Alarm))
        log.write_stderr("waiting")
    finally:
        signal.signal(signal.SIGALRM, former)
