"""The variables that a job's ranks get, and what the command line shows of the job."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.run import environment
from dbg_client.run.environment import (
    MAX_NAME,
    is_for_many_hosts,
    job_environment,
    job_name,
    token_file_of,
)
from dbg_client.run.options import RunOptions
from dbg_command.home import job_token
from dbg_dial.endpoint import Rendezvous, format_rendezvous
from dbg_wire.records.stop_points import StopAt, StopIn, parse_stops
from tests.support.reach import PIN, TOKENS


@pytest.mark.parametrize(
    "command",
    [
        "srun python train.py",
        "/usr/bin/mpirun -n 2 python train.py",
        "deepspeed train.py",
        "torchrun --nnodes=2 train.py",
        "torchrun --nnodes 1:4 train.py",
        "accelerate launch --num_machines 2 train.py",
        "accelerate launch --num-machines=2 train.py",
    ],
)
def test_commands_that_start_ranks_elsewhere_are_known(command: str) -> None:
    assert is_for_many_hosts(command.split())


@pytest.mark.parametrize(
    "command",
    [
        "python train.py",
        "python srun",
        "torchrun --nproc-per-node 4 train.py",
        "torchrun --nnodes=1 train.py",
        "torchrun --nnodes 1:1 train.py",
        "accelerate launch --num_machines 1 train.py",
    ],
)
def test_commands_of_one_host_are_known(command: str) -> None:
    assert not is_for_many_hosts(command.split())


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python /a/train.py --x other.py", "train-7"),
        ("srun -n 2 python -m fairseq2.recipes.lm --x", "lm-7"),
        ("torchrun --nproc-per-node 2 -m pkg.mod", "mod-7"),
        ("/opt/bin/fairseq2 lm train", "fairseq2-7"),
        ("python my/tr\x1bain é.py", "tr_ain-7"),
    ],
)
def test_a_job_is_named_after_its_script(command: str, name: str) -> None:
    words = ["python", "my/tr\x1bain.py"] if "\x1b" in command else command.split()
    assert job_name(words, "7", None) == name


def test_job_name_of_the_user_is_kept_and_made_unique() -> None:
    assert job_name(["python", "train.py"], "7", "big run") == "big_run-7"
    assert job_name(["python", "train.py"], "7", "") == "train-7"
    assert job_name(["python", "train.py"], "7", "a") != job_name(["python", "train.py"], "7.2", "a")


@given(st.lists(st.text(), min_size=1), st.none() | st.text())
def test_job_name_is_valid_in_targets_and_file_names(command: list[str], former: str | None) -> None:
    name = job_name(command, "7.2", former)
    assert re.fullmatch(rf"[A-Za-z0-9._-]{{0,{MAX_NAME}}}-7\.2", name)


def test_options_become_variables_of_the_ranks() -> None:
    options = RunOptions(
        stop_at=("a b.py:7, x, y == 1, 2",),
        stop_in=("a.b:C.m",),
        ranks="0-3",
        engine="pdb",
        post_mortem=True,
        collective_timeout="600",
        rank_filter="0",
        output="/o",
    )
    environ = job_environment({"PATH": "/bin", "DBG_ENGINE": "pudb"}, home="/h", job="j-1", options=options)
    assert environ == {
        "PYTHONUNBUFFERED": "1",
        "PATH": "/bin",
        "DBG_HOME": "/h",
        "DBG_JOB": "j-1",
        "DBG_STOP_AT": "a b.py:7, x, y == 1, 2",
        "DBG_STOP_IN": "a.b:C.m",
        "DBG_RANKS": "0-3",
        "DBG_ENGINE": "pdb",
        "DBG_POST_MORTEM": "1",
        "DBG_COLLECTIVE_TIMEOUT": "600",
    }
    stops = [StopAt(file="a b.py", line=7, condition="x, y == 1, 2"), StopIn(module="a.b", function="C.m")]
    assert parse_stops(environ["DBG_STOP_AT"], environ["DBG_STOP_IN"]) == (stops, [])


def test_variables_of_the_user_are_kept_without_options() -> None:
    given = {"DBG_RANKS": "1", "DBG_ENGINE": "pdb", "DBG_POST_MORTEM": "1", "PYTHONUNBUFFERED": "0"}
    environ = job_environment(given, home="/h", job="j-1", options=RunOptions())
    assert {name: environ[name] for name in given} == given
    assert (environ["DBG_STOP_AT"], environ["DBG_STOP_IN"]) == ("", "")


def serving(home: Path) -> None:
    rendezvous = Rendezvous(url="wss://h:1", host="h", pid=7, fingerprint=PIN, tokens={"rank": TOKENS["rank"]})
    path = home / "broker.json"
    path.write_text(format_rendezvous(rendezvous))
    path.chmod(0o600)


def test_the_file_holds_a_token_of_the_job(home: Path) -> None:
    serving(home)
    path = token_file_of("train-1", str(home), {})
    assert path is not None
    assert Path(path).read_text().strip() == job_token(TOKENS["rank"], "train-1")
    assert Path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("chosen", ["DBG_BROKER", "DBG_TOKEN", "DBG_TOKEN_FILE"])
def test_token_file_is_not_made_if_the_user_has_chosen_a_broker_or_token(home: Path, chosen: str) -> None:
    serving(home)
    assert token_file_of("train-1", str(home), {chosen: "x"}) is None


def test_nested_run_has_its_own_token(home: Path) -> None:
    serving(home)
    outer = token_file_of("train-1", str(home), {})
    assert outer is not None
    inner = token_file_of("train-1-2", str(home), {"DBG_TOKEN_FILE": outer})
    assert inner is not None
    assert Path(inner).read_text().strip() == job_token(TOKENS["rank"], "train-1-2")


def test_oldest_tokens_are_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAX_KEPT", 2)
    serving(home)
    paths = [Path(token_file_of(f"train-{number}", str(home), {}) or "") for number in range(2)]
    os.utime(paths[0], (1e9, 1e9))
    token_file_of("next", str(home), {})
    assert [path.exists() for path in paths] == [False, True]
