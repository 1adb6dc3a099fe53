"""The modules of the page in node: their own tests, and sets of ranks beside the targets of the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from dbg_wire.errors import DbgError
from dbg_wire.records.ranks import RankInfo, RankState, rank_document
from dbg_wire.targets.selection import parse_target, select
from tests.client.fake_broker import make_rank
from tests.support.time_unit import seconds

TESTS = Path(__file__).with_name("page")

ROOT = Path(__file__).parents[4]

READER = """
import {{ parseSet }} from "{page}/job/sets.js";
let text = "";
for await (const chunk of process.stdin) text += chunk;
const {{ rows, targets }} = JSON.parse(text);
const chosen = (target) => {{
  try {{ return rows.filter(parseSet(target)).map((row) => row.key).sort(); }} catch {{ return []; }}
}};
console.log(JSON.stringify(targets.map(chosen)));
"""

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no node here")


def node(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run node with what it reads."""
    return subprocess.run(
        ["node", *arguments], input=text, capture_output=True, text=True, timeout=seconds(60), check=False, cwd=ROOT
    )


@pytest.mark.parametrize("name", sorted(path.name for path in TESTS.glob("*.test.js")))
def test_the_tests_of_a_module_pass(name: str) -> None:
    ran = node("--test", str(TESTS / name))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# fail 0" in ran.stdout or "fail 0" in ran.stdout


def selected(target: str, ranks: list[RankInfo]) -> list[str]:
    """Return the keys of the ranks that a target selects."""
    try:
        return sorted(rank.key for rank in select(parse_target(target), ranks, any_job=True).ranks)
    except DbgError:
        return []


def test_a_set_typed_in_the_page_means_the_ranks_that_the_target_means() -> None:
    hosts = ["gpu007", "gpu008", "gpu009", "gpu010"]
    ranks = [
        make_rank(number, host=host, job=job, state=state, key=f"{job}/{host}/{number}", address=f"{host}:{number}")
        for number, host, (job, state) in zip(
            range(16),
            hosts * 4,
            [("4711.0", RankState.STOPPED), ("4711.0", RankState.RUNNING), ("eval-2", RankState.HELD)] * 6,
            strict=False,
        )
    ]
    whats = [
        "5",
        "0-3,5",
        "0-15/4",
        "0:8:2",
        "all",
        "stopped",
        "running",
        "gpu008:*",
        "gpu[007-009]:*",
        "gpu*:1-9",
        ":5",
    ]
    targets = [f"{job}{what}" for job, what in product(["", "4711.0/", "*/", "eval*/"], whats)]
    targets += [f"{one},!{other}" for one, other in product(whats, ["5", "0-3", "gpu008:*", "stopped", "4711.0/all"])]
    targets += [
        "",
        "5-3",
        "0-8/0",
        "nonsense",
        "gpu008:",
        "!5",
        "gpu008:1,5",
        "gpu008:1,:5",
        "gpu[08-09]:*",
        "gpu[7-9]:*",
    ]
    fields = ("job", "host", "rank", "child", "state", "reason")
    rows = [{"key": rank.key, **rank_document(rank, fields)} for rank in ranks]
    page = (ROOT / "client/dbg_client/faces/web/static").as_uri()
    ran = node(
        *("--input-type=module", "--eval", READER.format(page=page)),
        text=json.dumps({"rows": rows, "targets": targets}),
    )
    assert ran.returncode == 0, ran.stderr
    found = dict(zip(targets, json.loads(ran.stdout), strict=True))
    assert found == {target: selected(target, ranks) for target in targets}
    assert sum(map(bool, found.values())) > 60
