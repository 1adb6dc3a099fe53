"""What is found out about the process of another user before anything is done to it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from dbg_client.adopt.errors import CantAdopt
from dbg_client.adopt.inject import Pipe
from dbg_client.adopt.one import adopt_one, has_package
from dbg_client.adopt.process import read_process
from tests.conftest import Approved
from tests.support.requirements import needs_gdb

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root adopts processes of other users")


@needs_root
@needs_gdb
def test_a_process_whose_user_may_not_read_the_broker_is_left_alone(approved: Approved, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o700)
    (home / "broker.json").write_text("{}")
    program = f"import os, sys; os.setgid({NOBODY}); os.setuid({NOBODY}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(CantAdopt) as caught:
            adopt_one(child.pid, {"DBG_HOME": str(home)})
        approved(str(caught.value))
        child.kill()


@needs_gdb
def test_without_room_for_its_answer_a_process_is_left_alone(
    approved: Approved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker.json").write_text("{}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    program = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(CantAdopt) as caught:
            adopt_one(child.pid, {"DBG_HOME": str(tmp_path)})
        approved(str(caught.value))
        child.kill()


@needs_root
def test_the_interpreter_of_another_users_process_runs_as_that_user(tmp_path: Path) -> None:
    # What a user's PATH or PYTHONPATH leads to is that user's: root runs none of it as root.
    seen = read_process(os.getpid())
    assert seen is not None
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        program, told = Path(folder) / "python", Path(folder) / "told"
        program.write_text(f"#!/bin/sh\nid -u > {told}\nid -G >> {told}\n")
        program.chmod(0o755)
        assert has_package(replace(seen, uid=NOBODY, argv=(str(program),), environ={"PATH": os.defpath}))
        assert told.read_text().split() == [str(NOBODY), str(NOBODY)]


@needs_root
def test_the_folder_of_the_answer_stays_roots_and_another_user_can_only_answer(tmp_path: Path) -> None:
    # A user to whom the folder belonged would put a link where root is to write.
    pipe = Pipe(str(tmp_path), NOBODY)
    assert (tmp_path.stat().st_uid, stat.S_IMODE(tmp_path.stat().st_mode)) == (0, 0o711)
    assert Path(pipe.path).stat().st_uid == NOBODY
    pipe.close()
