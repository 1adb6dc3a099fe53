"""Verbs ``watch`` and ``numbers``: start watches over the numbers of a training, and report what they have found."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from dbg_client.core.wait_progress import WaitingLine
from dbg_client.numbers.answer import NumbersAnswer, answer_of
from dbg_client.numbers.watch_options import OFF, WATCHES, WatchOptions
from dbg_client.verbs.option import Operands, Option
from dbg_client.verbs.verb import Asking, Bound, Format, RanksVerb, refuse
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Action
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.ranks import WRONG_NUMBER, RankInfo, RankState


class Numbers(RanksVerb):
    """Report the watches of ranks and their first wrong numbers, or compare the recorded numbers of two ``runs``."""

    name = "numbers"
    example = "numbers"
    operands = Operands.TWO_RUNS
    in_session = Operands.MAYBE_TARGET
    help_in_session = "the first wrong number that a watch has found"
    usual = "all"
    without_target = True

    runs: tuple[str, ...] = ()
    exact: Annotated[bool, Option("--exact", help="compare every bit of two runs")] = False

    def check(self) -> None:
        refuse(self.exact and not self.runs, "--exact compares two runs", "name both, as in numbers A B")

    def start(self) -> int | None:
        if not self.runs:
            return None
        from dbg_client.numbers.two_runs import show_two_runs

        return show_two_runs(*self.runs, exact=self.exact, as_json=self.output.format is Format.JSON)

    async def ask(self, asking: Asking) -> NumbersAnswer:
        return await read_numbers(asking)


class Watch(RanksVerb):
    """Start a watch in running ranks, and wait until one of them stops at a wrong number; ``off`` ends all watches."""

    name = "watch"
    example = "watch nan"
    operands = Operands.WATCH
    usual = "all"
    without_target = True

    watch: str = ""
    options: WatchOptions = WatchOptions()
    bound: Bound = None

    def check(self) -> None:
        if self.watch not in (*WATCHES, OFF):
            what = f"{printable(self.watch)!r} is not a watch" if self.watch else "watch needs its kind"
            raise BadInput(what, f"write {', '.join(WATCHES)} or {OFF}, as in dbg-attach {self.example}")
        self.options.check(self.options.question([self.watch]))

    async def ask(self, asking: Asking) -> NumbersAnswer:
        if self.watch != OFF and any(map(_is_at_wrong_number, asking.ranks)):
            return await read_numbers(asking)
        question = NumbersQuestion(ends=True) if self.watch == OFF else self.options.question([self.watch])
        answer = answer_of(asking.ranks, await asking.asker.ask(Action.NUMBERS, asking.ranks, inquiry=question))
        if self.watch == OFF or not answer.watching:
            return answer
        await _until_wrong(asking, answer.watching, self.bound)
        return await read_numbers(asking)


async def read_numbers(asking: Asking) -> NumbersAnswer:
    """Return the states of the ranks' watches. Raises DbgError."""
    answers = await asking.asker.ask(Action.NUMBERS, asking.ranks, inquiry=NumbersQuestion())
    return answer_of(asking.ranks, answers)


def _is_at_wrong_number(rank: RankInfo) -> bool:
    return rank.reason == WRONG_NUMBER and rank.state is RankState.STOPPED


async def _until_wrong(asking: Asking, ranks: Sequence[RankInfo], seconds: float | None) -> None:
    """Wait until one of the ranks has stopped at a wrong number, all have exited, or ``seconds`` have passed."""
    switchboard = asking.asker.switchboard
    keys = {rank.key for rank in ranks}

    def is_over() -> bool | None:
        now = [rank for key, rank in switchboard.directory.by_key.items() if key in keys]
        return any(map(_is_at_wrong_number, now)) or all(rank.state is RankState.EXITED for rank in now) or None

    what = f"{len(keys)} ranks watch their numbers; Ctrl-C leaves them watching"
    with suppress(TimeoutError):
        async with WaitingLine(asking.show).says(lambda: what):
            await switchboard.until(is_over, seconds)
