from __future__ import annotations

import json

import pytest

from dbg_client.terminal.escape import COMMANDS
from dbg_client.views import pages
from dbg_client.views.answers import show_answers, show_answers_json, show_screen, show_screen_json
from dbg_client.views.list import show_json, show_plain, show_table
from dbg_client.views.pick_list import PickList, empty_text, footer_text
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.ranks import DIED, Place, RankInfo, RankState
from dbg_wire.targets import parse_target, select
from tests.client.fake_broker import make_rank
from tests.support.screen import VirtualScreen

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)
NOW = 1760000000.0

# ------------------------------------------------------------------------------------------------------------ the list


def test_the_table_is_aligned_and_says_where_and_who() -> None:
    driven = make_rank(5, driver="me@login1", watchers=2, queued=1)

    header, first, second = show_table([driven, RUNNING], NOW + 150, color=False).splitlines()

    assert header.split() == ["RANK", "STATE", "PLACE", "SINCE", "WHO"]
    assert first.index("stopped") == second.index("running") == header.index("STATE")
    assert "train.py:41 in step" in first
    assert "2 min" in first
    assert first.endswith("me@login1, 2 watching  1 queued")


def test_the_job_is_a_column_only_where_there_are_several() -> None:
    other = make_rank(5, job="4712.0", key="other")

    assert "4711.0" not in show_table([make_rank(5)], NOW, color=False)
    assert "4712.0  gpu013:5" in show_table([make_rank(5), other], NOW, color=False)


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
def test_the_table_says_what_people_ask_next(rank: RankInfo, text: str) -> None:
    assert f" {text} " in show_table([rank], NOW, color=False)


def test_the_table_shows_a_crash_and_a_hold() -> None:
    crashed = make_rank(5, reason="crash", detail="ValueError: bad \x1b[2J")
    held = make_rank(6, state=RankState.HELD, reason=None)

    header, first, second = show_table([crashed, held], NOW, color=False).splitlines()

    assert "stopped (crash)" in first
    assert first.endswith("  ValueError: bad \\x1b[2J")
    assert second.split()[1] == "held"
    assert "None" not in second
    assert "detail" not in json.loads(show_json([crashed]))["ranks"][0]
    assert header.split()[-1] == "SINCE"


def test_a_signal_is_told_once_and_the_core_it_left_all_the_same() -> None:
    killed = make_rank(5, state=RankState.EXITED, exit=-9, reason=DIED, detail="SIGKILL")
    dumped = make_rank(6, state=RankState.EXITED, exit=-11, reason=DIED, detail="SIGSEGV; core in /tmp/core")

    _, first, second = show_table([killed, dumped], NOW, color=False).splitlines()

    assert first.count("SIGKILL") == 1
    assert second.endswith("SIGSEGV; core in /tmp/core")


def test_colour_surrounds_the_state_alone() -> None:
    plain, painted = (show_table([make_rank()], NOW, color=color) for color in (False, True))

    assert "\x1b[1;33mstopped\x1b[0m" in painted
    assert painted.replace("\x1b[1;33m", "").replace("\x1b[0m", "") == plain


def test_what_a_rank_says_can_not_act_on_the_terminal() -> None:
    evil = "\x1b]2;owned\x07\x9b31m\n\t"
    rank = make_rank(
        address=evil, job=evil, driver=evil, reason=evil, where=Place(file=f"/{evil}.py", line=1, function=evil)
    )
    texts = [show_table([rank], NOW, color=False), show_plain([rank], [rank]), show_json([rank])]
    texts.append(show_answers([RankAnswer(key=rank.key, kind=Kind.VALUE, text=evil)], {rank.key: rank}))

    for text in texts:
        assert all(c.isprintable() or c in "\n\t" for c in text), text
    assert len(texts[0].splitlines()) == 2
    assert len(texts[1].splitlines()) == 1
    assert texts[1].count("\t") == 9


def test_column_1_of_plain_is_a_target_that_names_the_rank_alone() -> None:
    known = [make_rank(5), make_rank(6), make_rank(5, job="4712.0", key="4712")]

    targets = [line.split("\t")[0] for line in show_plain(known, known).splitlines()]

    assert len(set(targets)) == 3
    for target, rank in zip(targets, known, strict=True):
        assert select(parse_target(target), known).ranks == (rank,)


def test_json_has_the_agreed_keys_in_order() -> None:
    document = json.loads(show_json([make_rank(5), RUNNING]))

    assert list(document) == ["schema", "ranks"]
    assert document["schema"] == 1
    assert ",".join(document["ranks"][0]) == (
        "address,job,run,host,rank,local_rank,world_size,child,pid,state,reason,where,engine,queued,since,driver,"
        "watchers,exit,driver_silent"
    )
    assert document["ranks"][0]["where"] == {"file": "/home/me/train.py", "line": 41, "function": "step"}
    assert (document["ranks"][1]["where"], document["ranks"][1]["state"]) == (None, "running")


# ----------------------------------------------------------------------------------------------------------- answers


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

    document = json.loads(show_answers_json("continue", [*given, silent], ranks))

    assert (document["schema"], document["command"], document["asked"], document["answered"]) == (1, "continue", 3, 2)
    assert document["answers"][2] == {"address": None, "job": None, "kind": "lost", "text": ""}


def test_a_screen_keeps_its_rows_and_loses_its_teeth() -> None:
    assert show_screen(["PuDB  ", "", "\x1b[31mred"]) == "PuDB\n\n\\x1b[31mred\n"
    assert json.loads(show_screen_json(make_rank(), ["a", ""]))["screen"] == ["a", ""]


# -------------------------------------------------------------------------------------------------------------- pages


def test_a_page_clears_whatever_stood_there() -> None:
    screen = VirtualScreen(24, 80)
    screen.feed(b"\x1b[?25h\x1b[?1000h\x1b[?2004h\x1b[5;10r\x1b[4h\x1b[7m" + b"junk " * 500)

    screen.feed(pages.blank("one\n\nthree", 23, 80))

    assert screen.rows == ["", " one", "", " three", *[""] * 20]
    assert screen.cursor_hidden
    assert not screen.private_modes & {1000, 2004}


def test_a_page_is_cut_to_the_terminal() -> None:
    screen = VirtualScreen(4, 10)

    screen.feed(pages.blank("\n".join(["x" * 100] * 100), 3, 10))

    assert screen.rows[3] == ""
    assert all(len(row) < 10 for row in screen.rows)


def test_pages_and_titles_show_foreign_text_harmlessly() -> None:
    assert b"\x1b[31m" not in pages.blank("a\x1b[31mb", 23, 80)
    assert pages.title("a\x07\x1b]52;c;x\x07").count(b"\x07") == 1


def test_the_help_page_names_the_key_in_use() -> None:
    assert "Ctrl-^, then" in pages.help_text("Ctrl-^")


@pytest.mark.parametrize("page", [pages.help_text("Ctrl-]"), pages.line_help("Ctrl-]")])
def test_the_help_pages_name_every_key_behind_the_prefix(page: str) -> None:
    named = {key for line in page.splitlines() if line.startswith("  ") for key in line[2:12].split()}
    assert named >= COMMANDS
    assert "  R         end the job and run it again, under dbg-broker run\n" in page


def test_without_a_prefix_no_key_behind_it_is_named() -> None:
    assert "run it again" not in pages.line_help("")


# ---------------------------------------------------------------------------------------------------------- pick list


def picking(*ranks: RankInfo) -> PickList:
    picks = PickList()
    picks.update(ranks)
    return picks


def chosen(picks: PickList) -> int | None:
    return picks.chosen.rank if picks.chosen else None


def test_stopped_ranks_come_first_and_exited_ones_not_at_all() -> None:
    gone = make_rank(1, state=RankState.EXITED)
    picks = picking(make_rank(2, state=RankState.RUNNING, where=None), make_rank(9), gone)

    lines = picks.show(10, NOW).lines

    assert [line.split()[0] for line in lines] == ["gpu013:9", "gpu013:2"]


def test_the_choice_stays_with_its_rank() -> None:
    picks = picking(make_rank(1), make_rank(2), make_rank(3))
    picks.move(1)

    picks.update([make_rank(0), make_rank(1), make_rank(2)])
    assert chosen(picks) == 2
    picks.update([make_rank(0), make_rank(1)])

    assert chosen(picks) == 0


def test_the_choice_stops_at_the_ends_and_stays_in_sight() -> None:
    picks = picking(*map(make_rank, range(100)))
    for lines, expected in ((-5, 0), (30, 30), (1000, 99), (-98, 1)):
        picks.move(lines)
        shown = picks.show(10, NOW)
        assert chosen(picks) == expected
        assert shown.chosen is not None
        assert shown.lines[shown.chosen].startswith(f"gpu013:{expected} ")
        assert len(shown.lines) == 10


def test_typing_narrows_by_any_words() -> None:
    picks = picking(make_rank(1), make_rank(2, where=Place(file="data.py", line=6, function="load")))
    picks.filter = "DATA 47"

    picks.update([make_rank(1), make_rank(2, where=Place(file="data.py", line=6, function="load"))])

    assert chosen(picks) == 2
    assert len(picks.show(10, NOW).lines) == 1


def test_an_empty_list_says_why_and_what_next() -> None:
    assert picking().chosen is None
    assert picking().show(10, NOW).lines == ()

    def text(*, known: int = 0, filtered: str = "", away: str | None = None) -> str:
        return empty_text(known=known, filtered=filtered, away=away, url="wss://login1:6900")

    assert "wss://login1:6900" in text()
    assert "set_trace()" in text()
    assert "'xyz'" in text(filtered="xyz", known=3)
    assert "is gone (it shut down)" in text(away="it shut down")
    assert "--list --all" in text(known=3)


def test_the_footer_says_why_a_rank_can_not_be_attached_to() -> None:
    def footer(rank: RankInfo | None, *, away: str | None = None, filtering: bool = False) -> str:
        return footer_text(away=away, filtering=filtering, chosen=rank)

    assert "gpu013:6 is running" in footer(RUNNING)
    assert "Enter attaches" in footer(make_rank(state=RankState.HELD))
    assert "Enter attaches" in footer(make_rank())
    assert "Esc shows all" in footer(None, filtering=True)
    assert "broker gone" in footer(make_rank(), away="it shut down")
