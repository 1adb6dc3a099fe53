"""What `adopt` says of processes and ranks, and how a rank is told where the broker is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbg_client.adopt.adopt import line_for, rank_variables, table
from dbg_client.adopt.found import Candidate
from dbg_client.adopt.payload import Answer, Outcome
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.rank_infos import rank as listed_rank

ADOPTED = Answer(outcome=Outcome.ADOPTED, key="k")


def touch(path: str) -> None:
    """Take note of nothing: the files here answer."""


def test_a_rank_finds_the_broker_of_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "broker.json").touch()
    home = {"DBG_HOME": str(tmp_path)}
    assert rank_variables(None, home, touch) == home
    assert rank_variables("h:1", {**home, "DBG_TOKEN": "driver's"}, touch) == {**home, "DBG_BROKER": "h:1"}
    # A home with a broker.json has the token for ranks; a terminal's own may be another one.
    assert rank_variables(None, {**home, "DBG_TOKEN_FILE": "/t"}, touch) == home


def test_without_a_home_the_file_of_the_token_is_told(tmp_path: Path) -> None:
    variables = {"DBG_BROKER": "h:1", "DBG_TOKEN_FILE": "/t"}
    assert rank_variables(None, variables, touch) == variables
    with pytest.raises(BadInput, match="no home"):
        rank_variables(None, {}, touch)


def test_a_line_says_what_to_type(approved: Approved) -> None:
    rank = listed_rank("gpu013:3", state=RankState.RUNNING)
    assert (
        line_for(812, ADOPTED, rank, [rank]) == f"adopted {rank.address} (pid 812): dbg-attach where {rank.address}\n"
    )
    spinning = Answer(outcome=Outcome.ADOPTED, key="k", main=False)
    approved(line_for(812, spinning, rank, [rank]))
    already = Answer(outcome=Outcome.ALREADY, key="k")
    approved(line_for(812, already, rank, [rank]), "2")


def test_the_table_is_aligned_and_harmless() -> None:
    rows = table([Candidate(812, 3, "train.py", 65.0), Candidate(81234, 11, "evil\x1b[2J.py", 1.0)]).splitlines()
    assert rows[0].split() == ["RANK", "PID", "AGE", "SCRIPT"]
    assert "\x1b" not in rows[2]
    assert rows[1].index("train.py") == rows[2].index("evil")
