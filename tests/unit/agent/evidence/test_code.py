"""What code and environment a rank has, in a form by which ranks are compared; secrets don't leave it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.evidence import code
from dbg_agent.evidence.code import (
    CHANGED,
    EDITED,
    CodeFiles,
    code_parts,
    code_seen,
    packages,
    short_name,
    variables_told,
)
from dbg_agent.process import log
from dbg_wire.records.evidence import CodeKind

NAME = "a_module_of_the_user"


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the job's token, and wait for files as long as it takes."""
    monkeypatch.setattr(log._log, "secrets", ("the job's token",))
    monkeypatch.setattr(code, "WAIT_SECONDS", 60.0)


# --------------------------------------------------------------------------------------------------------- environment

SECRETS = "HF_TOKEN WANDB_API_KEY AWS_SECRET_ACCESS_KEY PGPASSWORD MY_CREDENTIALS NCCL_AUTH"
OF_ONE_RANK = (
    "RANK LOCAL_RANK SLURM_PROCID SLURMD_NODENAME OMPI_COMM_WORLD_RANK PMI_RANK HOSTNAME OMPI_MCA_ess_base_vpid "
    "OMPI_MCA_orte_ess_node_rank TMPDIR TORCHELASTIC_ERROR_FILE DBG_JOB PWD CUDA_VISIBLE_DEVICES JOB_COMPLETION_INDEX "
    "_ MS_NODE_ID PALS_RANKID GROUP_RANK MY_LOCAL_RANK"
)


def test_variables_of_the_field_are_told_with_their_values() -> None:
    environ = {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4", "PATH": "/bin", "LD_LIBRARY_PATH": "/a\x1b"}
    assert dict(variables_told(environ)) == {**environ, "LD_LIBRARY_PATH": "/a\\x1b"}


@pytest.mark.parametrize("names", [SECRETS, OF_ONE_RANK], ids=["secrets", "of one rank, host or shell"])
def test_secrets_and_what_belongs_to_one_rank_are_left_out_even_as_a_digest(names: str) -> None:
    assert dict(variables_told(dict.fromkeys(names.split(), "1234"))) == {}


def test_other_variables_have_a_digest_by_which_ranks_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(value: str) -> str:
        return dict(variables_told({"MY_MODE": value}))["MY_MODE"]

    first = told("fast")
    assert "fast" not in first
    assert first == told("fast") != told("slow")
    # An address may have a password in it.
    assert dict(variables_told({"HF_ENDPOINT": "https://me:hunter2@host/"}))["HF_ENDPOINT"].startswith("#")
    monkeypatch.setattr(log._log, "secrets", ("another token",))
    assert first != told("fast")
    monkeypatch.setattr(log._log, "secrets", ())
    assert told("fast") == ""


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_any_environment_is_told(environ: dict[str, str]) -> None:
    for name, value in variables_told(environ):
        assert (name + value).isprintable()


# --------------------------------------------------------------------------------------------------------------- files


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Load a module of the user's own; return its file."""
    path = tmp_path / f"{NAME}.py"
    path.write_text("def work():\n    return 1\n")
    made = ModuleType(NAME)
    made.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(made))  # noqa: S102 - as an import does
    monkeypatch.setitem(sys.modules, NAME, made)
    return path


def told(reader: CodeFiles) -> str:
    read = reader.read()
    assert read is not None
    return read[0][f"{NAME}.py"]


def reader(started: float) -> CodeFiles:
    """Return a reader of a process that began at this time."""
    made = CodeFiles()
    made._started = started
    return made


LATER = 2.0**40


def test_a_file_is_told_by_its_content_and_read_once(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = reader(LATER)
    first = told(before)
    assert len(first) == 16
    with monkeypatch.context() as patched:
        patched.setattr(code, "read_file", lambda _path, _most: (b"another content", None))
        assert told(before) == first
    module.write_text("def work():\n    return 2\n")
    assert told(reader(LATER)) != first


def test_a_file_that_was_edited_since_says_so(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    early = reader(0.0)
    assert EDITED not in told(early)
    module.write_text("def work():\n    return 1  # a comment\n\n\ndef more():\n    return 3\n")
    assert EDITED not in told(early)
    module.write_text("def work():\n    return 22\n")
    assert told(early).endswith(f" ({EDITED})")
    monkeypatch.setattr(code, "MAX_COMPILED", 3)
    assert told(reader(0.0)).endswith(f" ({CHANGED})")
    module.unlink()
    assert told(CodeFiles()) == "is gone"
    # A pipe in its place holds up nobody.
    os.mkfifo(module)
    assert told(reader(LATER))


def test_a_file_system_that_hangs_holds_up_nobody(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going, reads = threading.Event(), threading.Semaphore(0)

    def hangs(_path: str, _most: int) -> None:
        reads.release()
        going.wait()

    monkeypatch.setattr(code, "read_file", hangs)
    monkeypatch.setattr(code, "WAIT_SECONDS", 0.01)
    files = CodeFiles()
    assert files.read() == ({}, {})
    assert reads.acquire(timeout=30)
    # The thread that hangs stays the only one.
    assert files.read() == ({}, {})
    assert not reads.acquire(blocking=False)
    going.set()
    monkeypatch.setattr(code, "WAIT_SECONDS", 60.0)
    assert files.read() != ({}, {})


def test_names_are_equal_on_hosts_with_other_folders() -> None:
    assert short_name("__main__", "/scratch/1/train.py") == "train.py"
    assert short_name("model.layers", "/a/b/model/layers.py") == "model/layers.py"
    assert short_name("model", "/a/b/model/__init__.py") == "model/__init__.py"


def test_the_first_package_of_a_path_counts(tmp_path: Path) -> None:
    for name in ("a/Some_Package-1.2.dist-info", "b/some.package-2.0.dist-info", "b/x-3.egg-info"):
        (tmp_path / name).mkdir(parents=True)
    path = [str(tmp_path / "missing"), str(tmp_path / "a"), str(tmp_path / "b"), "", "\0"]
    assert {"some-package": "1.2", "x": "3"}.items() <= packages(path).items()


def test_parts_stand_behind_the_digests(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    before = code_seen()
    parts = {(part.kind, part.name): part.value for part in code_parts()}
    assert parts[CodeKind.VARIABLE, "NCCL_DEBUG"] == "INFO"
    assert parts[CodeKind.PACKAGE, "pytest"] == pytest.__version__
    assert (CodeKind.FILE, f"{NAME}.py") in parts
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    after = code_seen()
    assert (after.files, after.packages) == (before.files, before.packages)
    assert after.environment != before.environment
