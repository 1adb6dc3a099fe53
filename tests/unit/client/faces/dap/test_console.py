"""What in the debug console is a command, and what is an expression of the program."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dbg_client.core.errors import Declined
from dbg_client.faces.dap.console import HELP, Console
from dbg_client.faces.dap.listing import Threads
from dbg_client.faces.dap.moves import Keyboard
from dbg_client.faces.dap.window import Window
from dbg_wire.errors import BadInput


class NoJob:
    """A window that is asked for its ranks."""

    @property
    def switchboard(self) -> object:
        raise Declined("asked")


def answer(text: str) -> str | None:
    nobody = object()
    window = cast("Window", NoJob())
    console = Console(window, cast("Threads", nobody), cast("Keyboard", nobody))
    return asyncio.run(console.answer(text))


@pytest.mark.parametrize(
    "text",
    [
        "loss",
        "x: int = 3",
        "{1: 2}",
        "values[0: 3]",
        "lambda: 0",
        "where(mask)",
        "where = 5",
        "why + 1",
        "continue_",
        "all(x)",
        "take(3)",
        "help(loss)",
        "for i in x: print(i)",
    ],
)
def test_what_may_be_python_is_an_expression(text: str) -> None:
    assert answer(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "all: loss",
        "0-7: loss",
        " 5:  loss\n",
        "@1: x[0: 3]",
        "gpu013:*: loss",
        "where",
        "where all",
        "why 0-3",
        "pause 5",
    ],
)
def test_a_command_asks_ranks(text: str) -> None:
    with pytest.raises(Declined, match="asked"):
        answer(text)


def test_help_names_each_command() -> None:
    assert answer("help") == HELP
    for word in ("where", "why", "pause", "continue", "take", "give", "RANKS: EXPRESSION"):
        assert word in HELP


@pytest.mark.parametrize("word", ["pause", "continue"])
def test_what_moves_ranks_needs_to_know_which(word: str) -> None:
    with pytest.raises(BadInput, match=f"write `{word} all`"):
        answer(word)


def test_words_are_completed_at_the_beginning() -> None:
    nobody = object()
    console = Console(cast("Window", nobody), cast("Threads", nobody), cast("Keyboard", nobody))
    assert console.completions("wh") == ["where", "why"]
    assert console.completions("al") == ["all: "]
    assert console.completions("") == console.completions("xwh") == []
