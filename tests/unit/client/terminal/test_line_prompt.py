from __future__ import annotations

import asyncio

import pytest
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from dbg_client.terminal.line_prompt import RankCompleter, word_start

TAB = CompleteEvent(completion_requested=True)


class Rank:
    """A rank that answers a request with these matches, at once or not at all."""

    def __init__(self, *matches: str, silent: bool = False) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.completer = RankCompleter(self._ask)
        self._matches, self._silent = matches, silent

    def _ask(self, line: str, begin: int, end: int) -> int:
        self.asked.append((line, begin, end))
        number = len(self.asked)
        if not self._silent:
            asyncio.get_running_loop().call_soon(self.completer.answered, number, self._matches)
        return number

    async def complete(self, text: str, cursor: int | None = None) -> list[Completion]:
        document = Document(text, cursor)
        return [found async for found in self.completer.get_completions_async(document, TAB)]


@pytest.mark.parametrize(
    ("line", "start"), [("", 0), ("p lo", 2), ("p self.lo", 2), ("f(a,b", 4), ("b /home/me/tr", 2), ("x[", 2)]
)
def test_words_begin_where_pdb_thinks_they_do(line: str, start: int) -> None:
    assert word_start(line) == start


async def test_the_word_before_the_cursor_is_completed() -> None:
    rank = Rank("self.loss")
    (found,) = await rank.complete("p self.lo + 1", 9)

    assert rank.asked == [("p self.lo + 1", 2, 9)]
    assert (found.text, found.start_position, found.display_text) == ("self.loss", -7, "loss")


async def test_of_a_block_the_line_with_the_cursor_is_asked_about() -> None:
    rank = Rank()
    await rank.complete("for i in x:\n    lo")

    assert rank.asked == [("    lo", 4, 6)]


async def test_names_that_would_act_on_the_terminal_are_left_out() -> None:
    assert [found.text for found in await Rank("a\x1b[2J", "ab", "a\n").complete("a")] == ["ab"]


async def test_a_silent_rank_completes_nothing_and_its_late_answer_is_dropped() -> None:
    rank = Rank(silent=True)

    assert await rank.complete("p lo") == []
    rank.completer.answered(1, ("loss",))
    assert await rank.complete("p lo") == []
