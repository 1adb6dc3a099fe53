"""The file of a job's token stays as long as ranks of the job may dial, and not for ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbg_broker.home import tokens
from dbg_broker.home.tokens import (
    JOB_TOKENS_DIRECTORY,
    Tokens,
    job_is_over,
    job_token,
    renew_job_tokens,
    write_job_token,
)
from dbg_wire.errors import BadSecretFile

TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)


def kept(home: Path) -> set[str]:
    return {file.name for file in (home / JOB_TOKENS_DIRECTORY).iterdir()}


def test_the_next_run_removes_the_files_of_jobs_that_are_over(tmp_path: Path) -> None:
    first = write_job_token(tmp_path, "train-1", "a" * 20)
    write_job_token(tmp_path, "train-2", "b" * 20)
    assert first.stat().st_mode & 0o777 == 0o600
    job_is_over(first)
    assert kept(tmp_path) == {"train-1", "train-2"}
    write_job_token(tmp_path, "train-3", "c" * 20)
    assert kept(tmp_path) == {"train-2", "train-3"}


def test_the_oldest_files_go_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_KEPT", 2)
    for number in range(5):
        write_job_token(tmp_path, f"train-{number}", "a" * 20)
    assert kept(tmp_path) == {"train-2", "train-3", "train-4"}


def test_a_new_token_of_ranks_makes_new_tokens_for_all_jobs(tmp_path: Path) -> None:
    path = write_job_token(tmp_path, "train-1", TOKENS.for_job("train-1"))
    renew_job_tokens(tmp_path, replace(TOKENS, rank="n" * 43))
    assert path.read_text() == job_token("n" * 43, "train-1") + "\n"


def test_without_a_run_there_is_nothing_to_renew(tmp_path: Path) -> None:
    renew_job_tokens(tmp_path, TOKENS)
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_takes_no_directory_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no directory")
    with pytest.raises(BadSecretFile, match=r"job-tokens can't be made \(Not a directory\)"):
        write_job_token(tmp_path / "home", "train-1", "a" * 20)
