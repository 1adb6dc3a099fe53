"""``screen``: the screen of one rank's debugger, as text."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_client.verbs.option import Operands
from dbg_client.verbs.verb import PARTIAL, PLAIN, Answer, Asking, Style, WaitingVerb
from dbg_client.views.groups import describe_answer, lines_in, screen_document, show_screen
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo


class Screen(WaitingVerb):
    """Print the screen of a rank's debugger."""

    name = "screen"
    example = "screen 2"
    operands = Operands.TARGET
    in_session = Operands.MAYBE_TARGET
    help_in_session = "screen of a rank's debugger; default: this one"
    takes_one = True
    is_about_this_rank = True

    async def ask(self, asking: Asking) -> ScreenAnswer:
        (rank,) = asking.ranks
        (answer,) = await asking.asker.ask(Action.SCREEN, [rank])
        return ScreenAnswer(rank, answer)


@dataclass(frozen=True, slots=True)
class ScreenAnswer(Answer):
    """The rows of a debugger's screen, or the reason why it has none."""

    rank: RankInfo
    answer: RankAnswer

    @property
    def status(self) -> int:
        if self.answer.kind is Kind.VALUE:
            return 0
        return 1 if self.answer.kind in (Kind.ERROR, Kind.RUNNING) else PARTIAL

    @property
    def hint(self) -> str:
        return "" if self.answer.kind is Kind.VALUE else describe_answer(self.rank, self.answer)

    def text(self, style: Style = PLAIN) -> str:
        return show_screen(lines_in(self.answer)) if self.answer.kind is Kind.VALUE else ""

    def document(self) -> object:
        return screen_document(self.rank, lines_in(self.answer) if self.answer.kind is Kind.VALUE else ())
