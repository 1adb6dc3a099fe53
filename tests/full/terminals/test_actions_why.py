from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from websockets.asyncio.server import ServerConnection

from dbg_client.core.process_groups import RankEvidence
from dbg_wire.messages import Action, Look, Question, RankAnswer
from dbg_wire.records.evidence import CodeKind, CodePart, CodeSeen, EvidenceRecord
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.processes import run_command
from tests.support.rank_evidence import elsewhere, silent, waiting
from tests.unit.client.fake_broker import FakeBroker


def answer_of(one: RankEvidence, *parts: CodePart) -> RankAnswer:
    """Return the answer of a rank as it goes over the wire."""
    if one.evidence is None:
        return one.answer
    records: list[EvidenceRecord] = [
        *one.evidence.sources,
        *one.evidence.groups,
        *one.evidence.collectives,
        *one.evidence.waits,
    ]
    code = [one.evidence.code] if one.evidence.code is not None else []
    return one.answer.replace(rows=(*records, *code, *parts))


class Looked(FakeBroker):
    """A broker whose ranks answer each question by the next of these looks, and then by the last."""

    def __init__(self, *looks: Sequence[RankEvidence]) -> None:
        super().__init__(*(one.rank for one in looks[0]))
        self._looks = list(looks)
        self.parts: dict[str, tuple[CodePart, ...]] = {}

    def __enter__(self) -> Looked:
        super().__enter__()
        return self

    async def _answer_question(self, connection: ServerConnection, question: Question) -> None:
        look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        parts = self.parts if question.look is Look.CODE else {}
        self.said = {one.rank.key: answer_of(one, *parts.get(one.rank.key, ())) for one in look}
        await super()._answer_question(connection, question)

    @property
    def questions(self) -> list[Question]:
        """Return what the terminal has asked."""
        return [item for item in self.received if isinstance(item, Question)]


def run(broker: FakeBroker, environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "dbg_client", *words], {**environ, **broker.environment}, 60)


def test_it_names_who_is_missing_asks_once_and_remembers_that_rank(approved: Approved, environ: dict[str, str]) -> None:
    with Looked([waiting(0), waiting(1), waiting(3), elsewhere(2)]) as broker:
        done = run(broker, environ, "why")
        document = run(broker, environ, "why", "--json")
        listed = run(broker, environ, "list", "@missing")

    assert done.stderr == ""
    assert done.stdout.startswith(
        "4711.0: rank 2 (gpu013) has not come to all_reduce #5 of dp_0; 3 of 4 ranks wait since 1 min\n"
    )
    approved(done.stdout)
    assert (done.returncode, document.returncode) == (1, 1)
    told = json.loads(document.stdout)
    assert (told["schema"], told["asked"], told["answered"]) == (1, 4, 4)
    assert [(one["kind"], one["ranks"], one["others"]) for one in told["verdicts"]] == [("missing", "2", "0-1,3")]
    assert "gpu013:2" in listed.stdout
    assert "gpu013:1" not in listed.stdout
    assert [(one.action, one.look, len(one.keys)) for one in broker.questions] == [(Action.WHERE, Look.EVIDENCE, 4)] * 2


def test_a_part_of_a_job_is_told_from_all_of_it(environ: dict[str, str]) -> None:
    with Looked([waiting(0), waiting(1), waiting(3), elsewhere(2)]) as broker:
        done = run(broker, environ, "why", "0-1")

    assert "rank 2 (gpu013) has not come" in done.stdout
    assert len(broker.questions[0].keys) == 4


def test_another_look_tells_that_everybody_is_busy(approved: Approved, environ: dict[str, str]) -> None:
    looks = [[elsewhere(n, step, age=0.1) for n in range(4)] for step in (5, 8)]
    with Looked(*looks) as broker:
        done = run(broker, environ, "why")

    assert done.returncode == 0
    approved(done.stdout)
    assert done.stdout.endswith(" s all 4 ranks went from all_reduce #5 to #8 of dp_0\n")
    assert len(broker.questions) == 2


def test_what_can_not_be_told_has_a_status_of_its_own(environ: dict[str, str]) -> None:
    job = [waiting(0), waiting(1), silent(2), elsewhere(3, state=RankState.EXITED, exit=0)]
    with Looked(job) as broker:
        done = run(broker, environ, "why", "--json")

    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert [one["kind"] for one in told["verdicts"]] == ["missing", "unknown"]
    assert told["verdicts"][0]["ranks"] == "3"
    with Looked([waiting(0), waiting(1), silent(2), silent(3)]) as broker:
        assert run(broker, environ, "why").returncode == 6


def test_one_rank_of_each_code_is_asked_for_what_differs(environ: dict[str, str]) -> None:
    def rank(number: int, step: int, files: str) -> RankEvidence:
        one = elsewhere(number, step, age=0.1, world_size=3)
        assert one.evidence is not None
        return replace(one, evidence=replace(one.evidence, code=CodeSeen(files=files)))

    looks = [[rank(0, step, "a"), rank(1, step, "a"), rank(2, step, "b")] for step in (5, 8)]
    with Looked(*looks) as broker:
        broker.parts = {
            looks[0][n].rank.key: (CodePart(kind=CodeKind.FILE, name="model.py", value=digest),)
            for n, digest in ((0, "11"), (2, "22"))
        }
        done = run(broker, environ, "why")

    assert done.returncode == 1
    assert "rank 2 (gpu013) runs with other files than ranks 0-1\n  file model.py  11: 0-1; 22: 2\n" in done.stdout
    (asked,) = [one for one in broker.questions if one.look is Look.CODE]
    assert len(asked.keys) == 2


def test_the_collectives_of_a_job_as_a_table_and_as_json(environ: dict[str, str]) -> None:
    with Looked([waiting(0), waiting(1), waiting(3), elsewhere(2)]) as broker:
        done = run(broker, environ, "collectives", "0-1")
        document = run(broker, environ, "collectives", "--json")
        listed = run(broker, environ, "list", "@missing", "--plain")

    assert (done.returncode, done.stderr) == (0, "")
    assert "dp_0   0-3    all_reduce #5  3 of 4" in done.stdout
    assert json.loads(document.stdout)["groups"][0]["missing"] == "2"
    assert listed.stdout.startswith("2\t") or listed.stdout.startswith("gpu013:2\t")
    assert {one.look for one in broker.questions} == {Look.COLLECTIVES}
