"""Which variables are told, and how."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.evidence.code import variables_told
from dbg_agent.process import log


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log._log, "secrets", ("the job's token",))


def test_variables_of_the_field_are_told_with_their_values() -> None:
    environ = {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4", "PATH": "/bin", "LD_LIBRARY_PATH": "/a\x1b"}
    assert dict(variables_told(environ)) == {**environ, "LD_LIBRARY_PATH": "/a\\x1b"}


def test_a_secret_does_not_leave_the_rank_even_as_a_digest() -> None:
    names = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "MY_CREDENTIALS", "NCCL_AUTH")
    assert dict(variables_told(dict.fromkeys(names, "1234"))) == {}


def test_what_belongs_to_one_rank_host_or_shell_is_left_out() -> None:
    names = (
        *("RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURMD_NODENAME", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "HOSTNAME"),
        *("OMPI_MCA_ess_base_vpid", "OMPI_MCA_orte_ess_node_rank"),
        *("TMPDIR", "TORCHELASTIC_ERROR_FILE", "DBG_JOB", "PWD", "CUDA_VISIBLE_DEVICES", "JOB_COMPLETION_INDEX", "_"),
        *("MS_NODE_ID", "PALS_RANKID", "GROUP_RANK", "MY_LOCAL_RANK"),
    )
    assert dict(variables_told(dict.fromkeys(names, "1"))) == {}


def test_other_variables_have_a_digest_by_which_ranks_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    first = dict(variables_told({"MY_MODE": "fast"}))["MY_MODE"]
    assert "fast" not in first
    assert first == dict(variables_told({"MY_MODE": "fast"}))["MY_MODE"]
    assert first != dict(variables_told({"MY_MODE": "slow"}))["MY_MODE"]
    monkeypatch.setattr(log._log, "secrets", ("another token",))
    assert first != dict(variables_told({"MY_MODE": "fast"}))["MY_MODE"]
    monkeypatch.setattr(log._log, "secrets", ())
    assert dict(variables_told({"MY_MODE": "fast"})) == {"MY_MODE": ""}


def test_an_address_with_a_password_is_not_told() -> None:
    (value,) = dict(variables_told({"HF_ENDPOINT": "https://me:hunter2@host/"})).values()
    assert value.startswith("#")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_any_environment_is_told(environ: dict[str, str]) -> None:
    for name, value in variables_told(environ):
        assert (name + value).isprintable()
