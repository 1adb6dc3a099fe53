from __future__ import annotations

import json

import pytest

from dbg_client.views.groups import describe_answer
from dbg_client.views.list import list_document, show_state, show_table
from dbg_client.views.table import text_width
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import DIED, Place, RankInfo, RankState
from tests.support.rank_infos import block, changed
from tests.unit.client.fake_broker import make_rank

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)
NOW = 1760000000.0


def test_the_table_is_aligned_and_shows_places_and_drivers() -> None:
    driven = make_rank(5, driver="me@login1", watchers=2, queued=1)

    header, first, second = show_table([driven, RUNNING], NOW + 150, color=False).splitlines()

    assert header.split() == ["RANK", "STATE", "PLACE", "SINCE", "WHO"]
    assert first.index("stopped") == second.index("running") == header.index("STATE")
    assert "train.py:41 in step" in first
    assert "2 min" in first
    assert first.endswith("me@login1, 2 watching  1 queued")


@pytest.mark.parametrize(
    ("rank", "text"),
    [
        (make_rank(reason="crash"), "stopped (crash)"),
        (make_rank(state=RankState.EXITED, exit=0), "exited with status 0"),
        (make_rank(state=RankState.EXITED, exit=-15), "killed by SIGTERM"),
        (make_rank(state=RankState.EXITED, exit=-99), "killed by signal 99"),
        (make_rank(state=RankState.EXITED), "exited"),
        (make_rank(state=RankState.UNRESPONSIVE), "unresponsive"),
    ],
)
def test_the_table_shows_why_a_rank_has_stopped_or_ended(rank: RankInfo, text: str) -> None:
    assert f" {text} " in show_table([rank], NOW, color=False)


def test_the_table_shows_a_crash_and_a_hold() -> None:
    crashed = make_rank(5, reason="crash", error="ValueError: bad \x1b[2J")
    held = make_rank(6, state=RankState.HELD, reason=None)

    header, first, second = show_table([crashed, held], NOW, color=False).splitlines()

    assert "stopped (crash)" in first
    assert first.endswith("  ValueError: bad \\x1b[2J")
    assert second.split()[1] == "held"
    assert "None" not in second
    assert json.loads(json.dumps(list_document([crashed])))["ranks"][0]["detail"] == crashed.detail
    assert header.split()[-1] == "SINCE"


def test_a_signal_and_its_sender_are_shown_once() -> None:
    killed = make_rank(5, state=RankState.EXITED, exit=-9, reason=DIED)
    caused = make_rank(6, state=RankState.EXITED, exit=-11, reason=DIED, cause="from x", note="it held 1 GiB")

    _, first, second = show_table([killed, caused], NOW, color=False).splitlines()

    assert first.count("SIGKILL") == 1
    assert second.endswith("SIGSEGV from x; it held 1 GiB")


def test_output_of_a_rank_cannot_control_the_terminal() -> None:
    evil = "\x1b]2;owned\x07\x9b31m\n\t"
    rank = make_rank(
        address=evil, job=evil, driver=evil, reason=evil, where=Place(file=f"/{evil}.py", line=1, function=evil)
    )
    texts = [show_table([rank], NOW, color=False), json.dumps(list_document([rank]))]
    texts.append(describe_answer(rank, RankAnswer(key=rank.key, kind=Kind.ERROR, text=evil)))

    for text in texts:
        assert all(c.isprintable() or c in "\n\t" for c in text), text
    assert len(texts[0].splitlines()) == 2


def test_json_has_the_documented_keys_in_order() -> None:
    document = json.loads(json.dumps(list_document([make_rank(5), RUNNING])))

    assert list(document) == ["schema", "ranks", "missing"]
    assert document["schema"] == 1
    assert ",".join(document["ranks"][0]) == (
        "address,job,run,host,rank,local_rank,world_size,child,pid,state,reason,where,engine,queued,since,driver,"
        "watchers,exit,detail,driver_silent,passed,name,will_stop"
    )
    assert document["ranks"][0]["where"] == {"file": "/home/me/train.py", "line": 41, "function": "step"}
    assert (document["ranks"][1]["where"], document["ranks"][1]["state"]) == (None, "running")


def test_a_rank_that_will_stop_is_marked() -> None:
    rank = make_rank(5, state=RankState.RUNNING, where=None, reason=None)
    assert (show_state(rank), show_state(rank.replace(will_stop=True))) == ("running", "running, will stop")


@pytest.mark.parametrize("state", [RankState.RUNNING, RankState.HELD, RankState.EXITED])
def test_a_passed_stop_is_shown_in_each_state(state: RankState) -> None:
    passed = "a.py:5 without stopping, because no broker answered (h:1)"
    rank = changed(make_rank(5), state=state, passed=passed, error="RuntimeError: x", exit=None)
    assert f"RuntimeError: x; passed {passed}" in show_table([rank], NOW, color=False)
    assert json.loads(json.dumps(list_document([rank])))["ranks"][0]["passed"] == passed


def test_similar_ranks_share_a_row_of_a_long_list() -> None:
    hosts = [f"gpu{number:03}" for number in range(128)]
    ranks = [changed(one, since=NOW - one.rank / 100, where=make_rank().where) for one in block("A", hosts, 8)]
    odd = changed(ranks[700], state=RankState.RUNNING, where=None)
    typed_at = changed(ranks[13], driver="me@login1")
    ranks = [typed_at if one is ranks[13] else odd if one is ranks[700] else one for one in ranks]

    folded = show_table(ranks, NOW, color=False, fold=True).splitlines()
    plain = show_table(ranks, NOW, color=False)

    assert [line.split()[:3] for line in folded[1:]] == [
        ["0-12,14-699,701-1023", "1022", "stopped"],
        ["gpu001:13", "stopped", "train.py:41"],
        ["gpu087:700", "running", "7"],
    ]
    assert "0 s to 10 s" in folded[1]
    assert len(plain.splitlines()) == 1025
    assert show_table(ranks[:40], NOW, color=False, fold=True) == show_table(ranks[:40], NOW, color=False)


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("rank 5", 6), ("日本", 4), ("e\u0301", 1), ("\N{BLACK TELEPHONE}", 2), ("…", 2)],
)
def test_no_character_is_measured_narrower_than_terminals_draw_it(text: str, columns: int) -> None:
    assert text_width(text) == columns
