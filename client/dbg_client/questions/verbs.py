"""Verbs for any ranks, below every face: whom each fits, what is asked, and how answers are grouped.

The shell, a session, the library, an IDE and an agent differ in how they name ranks and show answers, and in nothing
that is here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbg_client.core.asking import Asker
from dbg_client.core.choose import is_ready, listed
from dbg_client.core.collective_matching import Matched
from dbg_client.core.errors import why_not_stopped
from dbg_client.core.roll_call import RollCall, call_roll
from dbg_client.core.switchboard import Switchboard
from dbg_client.questions.answers import (
    USUAL,
    StackAnswer,
    ValueAnswer,
    ValueOptions,
    ask_stacks,
    ask_values,
    who_is_missing,
)
from dbg_client.questions.breakpoints import BreakpointAnswer, ask_breakpoints
from dbg_client.views.groups import RankAndAnswer, group_answers
from dbg_client.views.list import show_table
from dbg_client.views.missing import NOBODY_MISSING, MissingInAnswer, absent_only, absent_rows
from dbg_client.views.naming import Naming
from dbg_client.words.settings import Asked, Continue, Eval, Kill, RankSettings, Release, Screen
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action
from dbg_wire.records.breakpoints import BreakpointWish, LineOfFile
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState, rank_order
from dbg_wire.targets.selection import Target

if TYPE_CHECKING:
    from dbg_client.hang.explain import Explanation
    from dbg_client.questions.slow import Stragglers

_ALONE = {
    **dict.fromkeys(("q", "quit", "exit", "EOF"), "`kill` ends ranks and `continue` lets them go on"),
    **dict.fromkeys(("interact", "debug", "commands"), "it needs a terminal: attach to one rank for it"),
    **dict.fromkeys(("run", "restart"), "a rank can't be started again by itself: end the job and launch it anew"),
}
"""Commands that are refused for several ranks, and what to do instead."""

_WORD = re.compile(r"\s*([A-Za-z_]+)")

MOVING = (RankState.RUNNING, RankState.UNRESPONSIVE)
"""States of ranks that a break-in stops."""


@dataclass(frozen=True, slots=True)
class Order:
    """What ranks are told to do. ``fits`` tells whom, and ``fitting`` says in words what the others are not."""

    action: Action
    name: str
    fits: Callable[[RankInfo], bool]
    fitting: str
    asks: str = ""
    """How the question begins that the user has to agree to; empty for none."""

    def those(self, ranks: Sequence[RankInfo]) -> list[RankInfo]:
        """Return the ranks whom it fits."""
        return [rank for rank in ranks if self.fits(rank)]


CONTINUE = Order(Action.CONTINUE, "continue", is_ready, "stopped")
RELEASE = Order(Action.RELEASE, "release", lambda rank: rank.state is RankState.HELD, "held, waiting for others")
INTERRUPT = Order(Action.INTERRUPT, "interrupt", lambda rank: rank.state in MOVING, "running", "Break into")
KILL = Order(Action.KILL, "kill", lambda rank: rank.state in LIVE_STATES, "alive", "End")
SCREEN = Order(Action.SCREEN, "screen", lambda rank: rank.state in LIVE_STATES, "alive")

ORDERS: Mapping[type[RankSettings], Order] = {Release: RELEASE, Continue: CONTINUE, Kill: KILL, Screen: SCREEN}
"""What ranks are told by the verbs that answer with a line for each rank."""


def reached_by(order: Order, ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the ranks that answer to an order: those that it fits, else those that ``continue`` keeps from a stop."""
    return order.those(ranks) or (INTERRUPT.those(ranks) if order is CONTINUE else [])


async def give_order(asker: Asker, order: Order, ranks: Sequence[RankInfo]) -> list[RankAndAnswer]:
    """Give an order to the ranks that it fits. Raises what the asker raises."""
    answering = list(ranks) if order is INTERRUPT else reached_by(order, ranks)
    moving = [rank for rank in INTERRUPT.those(ranks) if not order.fits(rank)] if order is CONTINUE else []
    # A rank that was asked to stop and is in C code would stop later.
    answers = await asker.ask(Action.INTERRUPT, moving, withdrawn=True) if moving else []
    if answering != moving:
        answers = await asker.ask(order.action, answering)
    return list(zip(answering, answers, strict=True))


def refuse_for_sets(command: str, count: int) -> None:
    """Raise BadInput for a command that would end several ranks, or makes no sense for them."""
    if count < 2:
        return
    for part in command.split(";;"):
        word = _WORD.match(part)
        if word is not None and word[1] in _ALONE:
            raise BadInput(f"`{word[1]}` is not for {count} ranks at once", _ALONE[word[1]])


def value_question(settings: Asked, ranks: Sequence[RankInfo]) -> tuple[Action, ValueOptions]:
    """Return what ranks are asked for a value or given as a command of pdb, and how.

    Raise BadInput for a command that is not for several ranks, DbgError if all ranks have exited.
    """
    require_living(ranks, settings.target or "")
    if not isinstance(settings, Eval):
        refuse_for_sets(settings.question, len(ranks))
        return Action.COMMAND, ValueOptions(frame=settings.frame, exact=settings.exact)
    return Action.EVAL, ValueOptions(
        frame=settings.frame,
        live=settings.live,
        stats=settings.stats,
        exact=settings.exact,
        tolerance=settings.tolerance,
    )


def require_living(ranks: Sequence[RankInfo], target: str) -> None:
    """Raise the DbgError that says how they ended if all of these ranks have exited."""
    if all(rank.state is RankState.EXITED for rank in ranks):
        raise why_not_stopped(ranks[0], target)


@dataclass(frozen=True, slots=True)
class RankList:
    """The ranks of a list in their order, and of which live runs ranks never came."""

    shown: tuple[RankInfo, ...]
    absent: tuple[RollCall, ...]
    known: Sequence[RankInfo]

    def table(self, *, color: bool, fold: bool, nobody: str = "") -> str:
        """Return the table for people, ``nobody`` in its place for no ranks, and below it who never came."""
        several = len({rank.job for rank in self.shown}) > 1
        table = show_table(self.shown, time.time(), color=color, fold=fold, known=self.known)
        return (table or nobody) + absent_rows(self.absent, several_jobs=several)


def list_ranks(
    known: Sequence[RankInfo], target: Target | None, found: Sequence[RankInfo], *, with_exited: bool = False
) -> RankList:
    """Return the list of what a target fits, ``found``, or of all ranks; exited ranks of live runs are among them."""
    shown = sorted(listed(known, target, found, with_exited=with_exited), key=rank_order)
    return RankList(tuple(shown), tuple(absent_only(call_roll(known, target))), known)


class Questions:
    """Questions and orders to ranks of one broker; ranks of a target that are missing are told with the answers."""

    def __init__(self, switchboard: Switchboard, asker: Asker, target: Target | None = None) -> None:
        self._directory = switchboard.directory
        self._asker = asker
        self._target = target

    async def values(
        self, ranks: Sequence[RankInfo], action: Action, command: str, wishes: ValueOptions = USUAL
    ) -> ValueAnswer:
        """Have ranks evaluate an expression or run a command of pdb."""
        return await ask_values(self._asker, ranks, action, command, wishes=wishes, calls=self._calls(ranks))

    async def stacks(
        self, ranks: Sequence[RankInfo], *, threads: bool = False, native: bool = False, frame: str = ""
    ) -> StackAnswer:
        """Ask ranks where they are; running ones answer, too."""
        known, calls = self._directory.ranks, self._calls(ranks)
        return await ask_stacks(
            self._asker, ranks, known=known, calls=calls, threads=threads, native=native, frame=frame
        )

    async def cause(self, ranks: Sequence[RankInfo]) -> Explanation:
        """Return why the jobs of these ranks do not go on."""
        from dbg_client.questions.cause import find_case  # hardly any verb explains a hang

        return (await find_case(self._asker, ranks, self._directory.ranks))[1]

    async def stragglers(self, ranks: Sequence[RankInfo], seconds: float) -> Stragglers:
        """Return who slows the jobs of these ranks down, after they have looked for so many seconds."""
        from dbg_client.questions.slow import find_stragglers  # hardly any verb judges samples

        return await find_stragglers(self._asker, ranks, self._directory.ranks, seconds)

    async def collectives(self, ranks: Sequence[RankInfo]) -> Sequence[Matched]:
        """Return the collectives in which the runs of these ranks stand."""
        from dbg_client.questions.cause import ask_collectives

        return (await ask_collectives(self._asker, ranks, self._directory.ranks))[0]

    async def order(self, order: Order, ranks: Sequence[RankInfo]) -> ValueAnswer:
        """Give an order to the ranks that it fits; nobody is asked if they are none."""
        said = await give_order(self._asker, order, ranks)
        return _grouped(order.name, said, ranks, NOBODY_MISSING, compare=False)

    async def breakpoints(
        self,
        ranks: Sequence[RankInfo],
        command: str = "breakpoints",
        at: LineOfFile | None = None,
        wish: BreakpointWish | None = None,
    ) -> tuple[ValueAnswer, BreakpointAnswer]:
        """Return the breakpoints of ranks; of one line, ``at``, after it is set as ``wish`` says, or cleared."""
        clear = [at] if at is not None and wish is None else []
        had = (await ask_breakpoints(self._asker, ranks)).at(clear[0]) if clear else {}
        told = await ask_breakpoints(self._asker, ranks, clear=clear, wanted=[wish] if wish is not None else [])
        said = told.said_of(at, had) if at is not None else told.said_of_all()
        missing = who_is_missing(ranks, self._calls(ranks))
        return _grouped(command, said, ranks, missing, compare=True), told

    def _calls(self, ranks: Sequence[RankInfo]) -> list[RollCall]:
        return call_roll(self._directory.ranks, self._target, {rank.key for rank in ranks})


def _grouped(
    command: str, said: Sequence[RankAndAnswer], ranks: Sequence[RankInfo], missing: MissingInAnswer, *, compare: bool
) -> ValueAnswer:
    groups = tuple(group_answers(said, compare=compare))
    return ValueAnswer(command=command, said=tuple(said), groups=groups, naming=Naming(ranks), missing=missing)
