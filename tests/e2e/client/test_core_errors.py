"""What an error offers to type is right where the error comes."""

from __future__ import annotations

import re

from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.full.terminals.test_actions_from_shell import Desk
from tests.unit.client.core.test_errors import HELD, RUNNING
from tests.unit.client.fake_broker import FakeBroker, make_rank


def test_each_command_that_an_answer_offers_does_what_it_says(approved: Approved, environ: dict[str, str]) -> None:
    gone = [make_rank(number, state=RankState.EXITED, exit=0) for number in range(18)]
    with FakeBroker(*gone) as broker:
        desk = Desk(broker, environ)
        nobody, listed = desk.run("where", "*/running"), desk.run("list", "--all", "--plain")
        empty = desk.run("list")
    assert (nobody.returncode, len(listed.stdout.splitlines())) == (3, 18)
    approved(nobody.stderr)
    approved(empty.stderr, "2")

    with FakeBroker(make_rank(5, world_size=8), RUNNING, HELD) as broker:
        desk = Desk(broker, environ)
        kill, held = desk.run("kill", "-y"), desk.run("continue", "7")
        wrong, never = desk.run("release", "5"), desk.run("eval", "0", "x")
        shown = desk.run("list", "held", "--plain")
    assert (kill.returncode, held.returncode, wrong.returncode, never.returncode) == (2, 1, 1, 3)
    assert "stopped" not in kill.stderr
    assert "`dbg-attach release 7`" in held.stderr
    assert re.search("`dbg-attach list held` shows", wrong.stderr)
    assert shown.stdout.startswith("gpu013:7\theld")
    assert "rank 0 of 4711.0 has not connected, 3 of 8 ranks have" in never.stderr
