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
    variables_told,
)
from dbg_agent.process import log

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
