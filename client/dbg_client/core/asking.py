"""Questions to any number of ranks, with an answer for each rank."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from dbg_client.core.errors import Declined, TimedOut
from dbg_client.core.link import Down, Event
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.wait_progress import OpenAnswers, WaitingLine, cancel_and_wait
from dbg_dial.tcp import within
from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_ASK_SECONDS, MAX_TEXT
from dbg_wire.messages import (
    Action,
    Answers,
    DetailLevel,
    Kind,
    Message,
    Question,
    RankAnswer,
    Refusal,
    Withdraw,
)
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.inspection import ScreenSize
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import InvalidMessage, checked, clamp

ON_THE_WAY_SECONDS = 0.25
"""Extra seconds for the transport of a question and its answers, so that an answer at the deadline still counts."""

GRACE_SECONDS = 5.0
"""Maximum seconds for the broker to finish a withdrawn question. After that the broker counts as silent."""

PAGE = 2000
"""Maximum ranks in one page of a question.

A page is one message, so it must have fewer keys than MAX_ITEMS, and with 500 bytes for each key must be smaller than
MAX_CONTROL_BYTES.
"""


class Asker:
    """Sends questions over a shared link; several may be open at once.

    ``seconds`` is the timeout of the questions that follow. ``size`` returns the (rows, columns) of a rank's screen.
    ``line`` is the status line that shows which ranks have not answered yet, for one question at a time.
    """

    def __init__(
        self,
        switchboard: Switchboard,
        seconds: float | None = None,
        size: Callable[[], tuple[int, int]] = lambda: (24, 80),
        line: WaitingLine | None = None,
    ) -> None:
        self.seconds = switchboard.seconds if seconds is None else seconds
        self.switchboard = switchboard
        self._size = size
        self._line = line or WaitingLine()

    def send(self, message: Message) -> None:
        """Send a message that has no answer. It is lost while the link is down."""
        self.switchboard.send(message)

    async def ask(
        self,
        action: Action,
        ranks: Sequence[RankInfo],
        text: str = "",
        *,
        live: bool = False,
        inquiry: AnyInquiry | None = None,
        withdrawn: bool = False,
        threads: bool = False,
        frame: str = "",
        look: DetailLevel = DetailLevel.STACK,
        seconds: float | None = None,
    ) -> list[RankAnswer]:
        """Return one answer per rank, in the order of ``ranks``; ``seconds`` replaces the asker's timeout.

        Cancelling this call withdraws the question, and guards stop their work for it.
        Raises BadInput for a text that can't be sent whole, TimedOut if the broker disconnects or is silent, and
        Declined if it refuses.
        """
        if action is Action.SCREEN:
            rows, columns = self._size()
            inquiry = clamp(ScreenSize, rows=rows, columns=columns)
        question = clamp(
            Question,
            request=0,
            keys=(),
            action=action,
            seconds=self.seconds if seconds is None else seconds,
            text=text,
            live=live,
            inquiry=inquiry,
            withdrawn=withdrawn,
            threads=threads,
            frame=frame,
            look=look,
            asked=_answering(ranks, live=live),
        )
        _require_sendable(question, text)
        return await self._put(question, ranks)

    async def _put(self, question: Question, ranks: Sequence[RankInfo]) -> list[RankAnswer]:
        answers = OpenAnswers(ranks)
        asking = [asyncio.create_task(self._ask(page, answers)) for page in self._pages(question, ranks)]
        async with self._line.says(lambda: str(answers)):
            try:
                await asyncio.gather(*asking)
            finally:
                await cancel_and_wait(*asking)
        silent = f"no answer in {question.seconds:g} s"
        return [answers.of(rank.key) or RankAnswer(key=rank.key, kind=Kind.SILENT, text=silent) for rank in ranks]

    async def _ask(self, page: Question, answers: OpenAnswers) -> None:
        """Send one page of a question, and wait for its answers until its timeout."""
        # If a page is queued after other questions, its timeout starts when the page is sent.
        async with self.switchboard.ask(page) as next_event:
            try:
                with suppress(TimeoutError):
                    await within(min(page.seconds, MAX_ASK_SECONDS) + ON_THE_WAY_SECONDS, _answers(next_event, answers))
                    return
            except asyncio.CancelledError:
                self.switchboard.send(Withdraw(request=page.request))
                raise
            self.switchboard.send(Withdraw(request=page.request))
            try:
                await within(GRACE_SECONDS, _answers(next_event, answers))
            except TimeoutError:
                seconds = page.seconds + GRACE_SECONDS
                raise TimedOut(f"the broker did not answer within {seconds:g} s: {answers}") from None
            finally:
                self.switchboard.cancel(page.request)

    def _pages(self, question: Question, ranks: Sequence[RankInfo]) -> list[Question]:
        """Split a question into pages, each with a number of its own."""
        keys = [rank.key for rank in ranks]
        return [
            question.replace(request=self.switchboard.next_number(), keys=tuple(keys[start : start + PAGE]))
            for start in range(0, len(keys), PAGE)
        ]


def _require_sendable(question: Question, text: str) -> None:
    """Raise BadInput if a question is too long, or contains only a part of ``text``: a part may mean something else."""
    if question.text != text:
        is_long = len(text) > MAX_TEXT
        what = f"has {len(text)} characters, above {MAX_TEXT}" if is_long else "is not valid UTF-8"
        raise BadInput(f"the text of this question {what}", "use another text")
    try:
        checked(question)
    except InvalidMessage as error:
        raise BadInput(f"this question can't be sent: {printable(str(error), 300)}", "ask for less at once") from None


async def _answers(next_event: Callable[[], Awaitable[Event]], answers: OpenAnswers) -> None:
    """Receive the answers to a question until the last one."""
    while True:
        event = await next_event()
        if isinstance(event, Down):
            raise TimedOut(f"the broker disconnected before it answered ({printable(event.reason)}): {answers}")
        if isinstance(event, Refusal):
            raise Declined(event.text)
        if isinstance(event, Answers):
            for same in event.answers:
                answers.take(same.each())
            if event.last:
                return


def _answering(ranks: Sequence[RankInfo], *, live: bool) -> int:
    """Return how many ranks can take part in collectives while they evaluate the question: stopped and held ranks.

    With ``live``, running ranks can take part too. The result is at least 1, because 0 means that it is unknown.
    """
    able = {RankState.STOPPED, RankState.HELD, *((RankState.RUNNING,) if live else ())}
    return max(1, sum(rank.state in able for rank in ranks))
