from __future__ import annotations

import json

from dbg_client.views.answers import answers_document, screen_document, show_answers, show_screen
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo
from tests.unit.client.fake_broker import make_rank


def answers(count: int, kind: Kind, text: str = "") -> tuple[list[RankAnswer], dict[str, RankInfo]]:
    ranks = {rank.key: rank for rank in map(make_rank, range(count))}
    return [RankAnswer(key=key, kind=kind, text=text) for key in ranks], ranks


def test_few_answers_are_named_and_many_counted() -> None:
    assert show_answers(*answers(2, Kind.VALUE, "continued")) == "gpu013:0 continued\ngpu013:1 continued\n"
    assert show_answers(*answers(1000, Kind.VALUE, "continued")) == "1000 ranks continued\n"


def test_silence_is_an_answer() -> None:
    assert show_answers(*answers(1, Kind.SILENT, "running, data.py:61")) == (
        "gpu013:0 did not answer (running, data.py:61)\n"
    )


def test_answers_as_json_count_who_spoke() -> None:
    given, ranks = answers(2, Kind.VALUE, "continued")
    silent = RankAnswer(key="gone", kind=Kind.LOST, text="")

    document = json.loads(json.dumps(answers_document("continue", [*given, silent], ranks)))

    assert (document["schema"], document["command"], document["asked"], document["answered"]) == (1, "continue", 3, 2)
    assert document["answers"][2] == {"address": None, "job": None, "kind": "lost", "text": ""}


def test_a_screen_keeps_its_rows_and_loses_its_teeth() -> None:
    assert show_screen(["PuDB  ", "", "\x1b[31mred"]) == "PuDB\n\n\\x1b[31mred\n"
    assert screen_document(make_rank(), ["a", ""])["screen"] == ["a", ""]
