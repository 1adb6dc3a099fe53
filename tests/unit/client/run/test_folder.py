"""The outputs of a directory's runs, and the bounds on their number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_client.run.folder import FOLDERS_KEPT, OUTPUTS_KEPT, Folder, folder_of
from dbg_wire.errors import BadInput, BadSecretFile
from tests.conftest import Approved


@pytest.fixture
def folder(home: Path) -> Folder:
    return made(home, "/work/here")


def made(home: Path, directory: str) -> Folder:
    folder = folder_of(str(home), directory)
    folder.make()
    return folder


def output_of(folder: Folder, job: str, *, age: int) -> tuple[int, Path]:
    descriptor, path = folder.open_output(job, None)
    os.utime(path, (1e9 - age, 1e9 - age))
    return descriptor, path


def test_outputs_of_ended_runs_are_removed_except_the_last_ones(folder: Folder) -> None:
    paths = []
    for number in range(OUTPUTS_KEPT + 3):
        descriptor, path = output_of(folder, f"job-{number}", age=10 - number)
        os.close(descriptor)
        paths.append(path)

    assert [path.exists() for path in paths] == [False, False] + [True] * (OUTPUTS_KEPT + 1)


def test_reports_are_removed_with_their_output(folder: Folder) -> None:
    descriptor, path = output_of(folder, "job-[1]", age=100)
    os.close(descriptor)
    old = [path.with_name(f"job-[1].hang{number}.txt") for number in ("", "-2")]
    other = path.with_name("job-1.hang.txt")
    for report in (*old, other):
        report.touch()
    for number in range(OUTPUTS_KEPT + 1):
        os.close(output_of(folder, f"job-{number + 2}", age=10 - number)[0])

    assert not path.exists()
    assert [report.exists() for report in (*old, other)] == [False, False, True]


def test_output_is_truncated_and_then_appended_to(folder: Folder, tmp_path: Path) -> None:
    given = tmp_path / "given.out"
    given.write_bytes(b"of the run before")
    descriptor, path = folder.open_output("job", str(given))
    os.write(descriptor, b"one ")
    with given.open("ab") as other:
        other.write(b"two ")
    os.write(descriptor, b"three")
    os.close(descriptor)

    assert path == given
    assert given.read_bytes() == b"one two three"


@pytest.mark.parametrize("kind", ["folder", "pipe", "terminal"])
def test_output_must_be_an_ordinary_file(approved: Approved, folder: Folder, tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    master, slave = os.openpty()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path(os.ttyname(slave))
    with pytest.raises(BadInput) as caught:
        folder.open_output("job", str(path))
    approved(str(caught.value))
    os.close(master)
    os.close(slave)


# ----------------------------------------------------------------------------------------------------------- folders


def test_each_directory_has_a_folder_of_its_own_that_is_closed_to_others(home: Path) -> None:
    one, other = made(home, "/work/one"), made(home, "/work/other\udcff")

    assert one != other
    assert made(home, "/work/one") == one
    assert one.path.stat().st_mode & 0o777 == 0o700


def test_oldest_folders_are_removed_unless_a_run_uses_them(home: Path) -> None:
    folders = []
    for number in range(FOLDERS_KEPT):
        folder = made(home, f"/work/{number}")
        os.utime(folder.path, (1e9 + number, 1e9 + number))
        folders.append(folder)
    running, _ = folders[0].open_output("job", None)
    os.utime(folders[0].path, (1e9, 1e9))

    newest = made(home, "/work/new")
    made(home, "/work/newer")
    os.close(running)

    assert [folder.path.exists() for folder in folders[:4]] == [True, False, True, True]
    assert newest.path.exists()


def test_home_readable_by_others_is_refused(home: Path) -> None:
    home.chmod(0o755)
    with pytest.raises(BadSecretFile):
        made(home, "/work/here")
