"""The texts of log points in the debug console of an IDE."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from dbg_client.core.link import Event
from dbg_client.faces.dap import console
from dbg_client.faces.dap.console import LogTexts
from dbg_wire.messages import Change, Gone, Logged
from dbg_wire.records.ranks import RankInfo, RankState
from tests.unit.client.faces.dap.shown import Shown, threads
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink


def running(number: int, **changes: object) -> RankInfo:
    return make_rank(number, state=RankState.RUNNING, where=None, reason=None, **changes)


RANKS = [running(number) for number in range(8)]


def logged(number: int, text: str, left_out: int = 0) -> Logged:
    return Logged(key=RANKS[number].key, text=text, left_out=left_out)


def printed(*events: Event, ranks: Sequence[RankInfo] = RANKS, target: str = "all", lines: int = 1) -> list[str]:
    """Return the lines of the console after these events of the broker, as soon as there are so many."""

    def console(shown: Shown) -> list[str]:
        return [line for body in shown.named("output") for line in body["output"].splitlines()]

    async def talk() -> list[str]:
        link = ScriptedLink()
        async with threads(link, ranks, target) as (_, shown, window):
            texts = LogTexts(window)
            with window.switchboard.watched_by(texts.receive):
                for event in events:
                    link.events.put_nowait(event)
                with suppress(asyncio.TimeoutError):
                    await shown.until(lambda: len(console(shown)) >= lines)
            texts.close()
            return console(shown)

    return asyncio.run(talk())


def test_equal_texts_of_many_ranks_are_one_line() -> None:
    texts = [logged(number, "at 7" if number != 5 else "at 6") for number in (*range(4), 5, 6, 7)]
    assert printed(*texts, lines=2) == ["0-3,6-7: at 7", "5: at 6"]


def test_a_text_that_a_rank_logs_twice_is_printed_twice() -> None:
    texts = [logged(0, "here"), logged(1, "here"), logged(0, "here"), logged(0, "here")]
    assert printed(*texts, lines=3) == ["0-1: here", "0: here", "0: here"]


def test_the_texts_of_other_ranks_are_not_shown() -> None:
    shown = printed(logged(7, "not this", left_out=3), logged(1, "this"), target="0-3")
    assert shown == ["1: this"]


def test_what_is_left_out_is_told() -> None:
    shown = printed(logged(0, "a"), logged(1, "b", left_out=12), lines=3)
    assert shown == ["Log texts left out here: 12; the job's output has them.", "0: a", "1: b"]


def test_a_text_can_do_nothing_to_the_console_and_is_short() -> None:
    (line,) = printed(logged(0, "\x1b[2J\nforged: " + "x" * 10_000))
    assert line.startswith("0: \\x1b[2J\\nforged: x")
    assert len(line) < console.MAX_TEXT + 10


def test_a_rank_that_came_later_is_heard_and_one_that_is_gone_is_not() -> None:
    new = running(9)
    texts = [logged(0, "a"), Gone(key=RANKS[1].key), logged(1, "c"), Change(rank=new), Logged(key=new.key, text="b")]
    assert printed(*texts, lines=2) == ["0: a", "9: b"]


def test_many_texts_do_not_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "GATHER_SECONDS", 10_000.0)
    monkeypatch.setattr(console, "MAX_GATHERED", 5)
    assert printed(*[logged(0, f"{number}") for number in range(5)], lines=5) == [f"0: {number}" for number in range(5)]
