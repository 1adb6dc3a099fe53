"""A home is taken only where nobody else can put another directory in its place."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Approved
from tests.support.serving import run
from tests.unit.broker.home.test_private_files import OTHER, directory, needs_root


@needs_root
def test_serve_names_the_directory_in_one_sentence(approved: Approved, tmp_path: Path) -> None:
    theirs = directory(tmp_path / "theirs", 0o755, OTHER)
    ended = run(theirs / "home", "serve", "--listen", "127.0.0.1:0")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    approved(line)
