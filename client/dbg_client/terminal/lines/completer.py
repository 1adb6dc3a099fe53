"""Completion that asks the rank, and waits for it no longer than a person does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from dbg_dial.deadline import within
from dbg_wire.limits import COMPLETION_SECONDS, MAX_COMPLETIONS

DELIMITERS = " \t\n`@#%^&*()=+[{]}\\|;:'\",<>?"
"""What ends a word to pdb: ``.`` and ``/`` don't, since names have attributes and files directories."""

Ask = Callable[[str, int, int], int]
"""Asks the rank what ``line[begin:end]`` may become; returns the number that the answer will bear."""


def word_start(line: str) -> int:
    """Return where the word begins that ends ``line``."""
    return max((line.rfind(delimiter) for delimiter in DELIMITERS), default=-1) + 1


class RankCompleter(Completer):
    """Complete the word before the cursor with what the rank finds; what comes late is dropped."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: dict[int, asyncio.Future[tuple[str, ...]]] = {}

    def answered(self, request: int, matches: tuple[str, ...]) -> None:
        """Take the rank's answer."""
        waiting = self._waiting.get(request)
        if waiting is not None and not waiting.done():
            waiting.set_result(matches)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: only the asynchronous way can wait for a rank."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield what the rank answers within COMPLETION_SECONDS."""
        line, end = document.current_line, document.cursor_position_col
        begin = word_start(line[:end])
        answer: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        request = self._ask(line, begin, end)
        self._waiting[request] = answer
        try:
            matches = await within(COMPLETION_SECONDS, answer)
        except asyncio.TimeoutError:
            return
        finally:
            del self._waiting[request]
        for match in matches[:MAX_COMPLETIONS]:
            # A match that would act on the terminal is no name and no file that a user wants to type.
            if match.isprintable():
                yield Completion(match, start_position=begin - end, display=match.rpartition(".")[2] or match)
