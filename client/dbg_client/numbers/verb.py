"""Verbs ``watch`` and ``numbers``: start watches over the numbers of a training, and report what they have found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar

from dbg_client.core.asking import Asker
from dbg_client.core.wait_progress import Show, WaitingLine
from dbg_client.numbers.answer import NumbersAnswer, answer_of
from dbg_client.numbers.watch_options import OFF, WATCHES, WatchOptions
from dbg_client.verbs.option import NO_FLAGS, Operands, Option
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
    in_session: ClassVar[Operands | None] = Operands.MAYBE_TARGET
    help_in_session = "the first wrong number that a watch has found"
    usual = "all"
    without_target = True

    runs: tuple[str, ...] = ()
    is_bitwise: Annotated[bool, Option("--exact", help="compare every bit of two runs")] = False
    watch: str = ""
    """The watch to start, ``off`` to end all, or empty to read only."""
    options: Annotated[WatchOptions, NO_FLAGS] = WatchOptions()
    bound: Annotated[float | None, NO_FLAGS] = None

    @classmethod
    def with_watch(cls, watch: str, seconds: float | None, *, exact: bool, exclude: tuple[str, ...]) -> Numbers:
        """Return the verb that first starts a watch, if ``watch`` is not empty. Raises BadInput."""
        options = WatchOptions(exact=exact, exclude=exclude)
        options.check(options.question([watch]))
        return cls(watch=watch, options=options, bound=seconds)

    def check(self) -> None:
        refuse(self.is_bitwise and not self.runs, "--exact compares two runs", "name both, as in numbers A B")

    def start(self) -> int | None:
        if not self.runs:
            return None
        from dbg_client.numbers.two_runs import show_two_runs

        as_json = self.output.format is Format.JSON
        return show_two_runs(*self.runs, exact=self.is_bitwise, as_json=as_json)

    async def ask(self, asking: Asking) -> NumbersAnswer:
        if not self.watch or (self.watch != OFF and any(map(_is_at_wrong_number, asking.ranks))):
            return await read_numbers(asking.asker, asking.ranks)
        question = NumbersQuestion(ends=True) if self.watch == OFF else self.options.question([self.watch])
        answer = answer_of(asking.ranks, await asking.asker.ask(Action.NUMBERS, asking.ranks, inquiry=question))
        if answer.watching:
            await _until_wrong(asking.asker, answer.watching, self.bound, asking.show)
            answer = await read_numbers(asking.asker, asking.ranks)
        return answer


class Watch(Numbers):
    """Start a watch in running ranks, and wait until one of them stops at a wrong number."""

    name = "watch"
    example = "watch nan"
    operands = Operands.WATCH
    in_session = None

    options: WatchOptions = WatchOptions()
    bound: Bound = None

    def check(self) -> None:
        if self.watch not in (*WATCHES, OFF):
            what = f"{printable(self.watch)!r} is not a watch" if self.watch else "watch needs its kind"
            raise BadInput(what, f"write {', '.join(WATCHES)} or {OFF}, as in dbg-attach {self.example}")
        self.options.check(self.options.question([self.watch]))


async def read_numbers(asker: Asker, ranks: Sequence[RankInfo]) -> NumbersAnswer:
    """Return the states of the ranks' watches. Raises DbgError."""
    return answer_of(ranks, await asker.ask(Action.NUMBERS, ranks, inquiry=NumbersQuestion()))


def _is_at_wrong_number(rank: RankInfo) -> bool:
    return rank.reason == WRONG_NUMBER and rank.state is RankState.STOPPED


async def _until_wrong(asker: Asker, ranks: Sequence[RankInfo], seconds: float | None, show: Show) -> None:
    """Wait until one of the ranks has stopped at a wrong number, all have exited, or ``seconds`` have passed."""
    directory = asker.switchboard.directory
    keys = {rank.key for rank in ranks}

    def is_over() -> bool | None:
        now = [rank for key, rank in directory.by_key.items() if key in keys]
        return any(map(_is_at_wrong_number, now)) or all(rank.state is RankState.EXITED for rank in now) or None

    limit = None if seconds is None or math.isinf(seconds) else seconds
    try:
        async with WaitingLine(show).says(
            lambda: f"{len(keys)} ranks watch their numbers; Ctrl-C leaves them watching"
        ):
            await asker.switchboard.until(is_over, limit)
    except TimeoutError:
        return
