from __future__ import annotations

from pathlib import Path

import pytest

from dbg_client.terminal.options import Startup, commands_of, read_startup
from dbg_wire.errors import BadInput
from dbg_wire.limits import MAX_INPUT_PENDING


def test_comments_and_empty_lines_are_no_commands() -> None:
    assert commands_of("# mine\n\nalias nl n;;l\r\n  b 12  \n   # b 13\n") == ["alias nl n;;l", "b 12"]


def test_the_users_file_comes_before_the_one_named(tmp_path: Path) -> None:
    (tmp_path / ".pdbrc").write_text("first\n")
    (tmp_path / "x").write_text("second\n")

    assert list(read_startup(str(tmp_path), str(tmp_path / "x")).for_rank("a")) == ["first", "second"]
    assert list(read_startup(None, str(tmp_path / "x")).for_rank("a")) == ["second"]
    assert list(read_startup(str(tmp_path / "nowhere"), None).for_rank("a")) == []


def test_each_rank_is_told_each_line_once() -> None:
    startup = Startup(["b 12", "c"])
    startup.for_rank("a").popleft()

    assert list(startup.for_rank("a")) == ["c"]
    assert list(startup.for_rank("b")) == ["b 12", "c"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (MAX_INPUT_PENDING + 1), None])
def test_a_file_that_can_not_be_used_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BadInput, match=str(path)):
        read_startup(None, str(path))
