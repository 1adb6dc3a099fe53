"""``continue``, ``release``, ``kill`` and ``interrupt``: commands for ranks in certain states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_client.core.choose import is_ready
from dbg_client.core.errors import NotHeld, NotStopped, why_not_stopped
from dbg_client.verbs.attach_options import AttachOptions, Recorded
from dbg_client.verbs.option import Operands
from dbg_client.verbs.verb import PARTIAL, Asking, GroupedAnswer, RanksVerb, WaitingVerb
from dbg_client.views.groups import RankAndAnswer, group_answers
from dbg_client.views.naming import Naming
from dbg_wire.errors import DbgError
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState

MOVING = (RankState.RUNNING, RankState.UNRESPONSIVE)
"""States of ranks that a break-in stops."""


def is_moving(rank: RankInfo) -> bool:
    """Return True if a break-in stops the rank."""
    return rank.state in MOVING


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAnswer(GroupedAnswer):
    """Answers of ranks to a command that applies to some states only."""

    @property
    def status(self) -> int:
        kinds = {answer.kind for _, answer in self.answers}
        return 0 if kinds == {Kind.VALUE} else PARTIAL if kinds - {Kind.VALUE, Kind.ERROR} else 1


def answered(command: str, by_rank: Sequence[RankAndAnswer], ranks: Sequence[RankInfo]) -> OrderAnswer:
    """Return the answer to a command that ranks have received."""
    grouped = tuple(group_answers(by_rank))
    return OrderAnswer(command=command, answers=tuple(by_rank), grouped=grouped, naming=Naming(ranks))


class RankCommand(WaitingVerb):
    """A command that applies only to ranks in certain states."""

    operands = Operands.TARGET

    def fits(self, rank: RankInfo) -> bool:
        """Return True if the command applies to the rank."""
        raise NotImplementedError

    def may_change(self) -> bool:
        return True

    def why_none_fits(self, asking: Asking) -> DbgError:
        """Return the error for a target without a rank that the command applies to."""
        return why_not_stopped(asking.ranks[0], _named(asking))

    async def give(self, asker: Asker, ranks: Sequence[RankInfo]) -> OrderAnswer:
        """Send the command to the ranks that it applies to, if there are any. Raises the asker's errors."""
        limit_rows = [rank for rank in ranks if self.fits(rank)]
        answers = await asker.ask(Action(self.name), limit_rows) if limit_rows else []
        return answered(self.name, list(zip(limit_rows, answers, strict=True)), ranks)

    async def ask(self, asking: Asking) -> OrderAnswer:
        answer = await self.give(asking.asker, asking.ranks)
        if not answer.answers:
            raise self.why_none_fits(asking)
        return answer


class Continue(RankCommand):
    """Resume stopped ranks, and withdraw the interrupt of a rank that has not stopped yet."""

    name = "continue"
    example = "continue stopped"
    in_session = Operands.TARGET
    help_in_session = "resume stopped ranks"
    usual = "stopped"
    for_agents = "Resume stopped ranks; without `ranks`, all stopped ranks."

    def fits(self, rank: RankInfo) -> bool:
        return is_ready(rank)

    def why_none_fits(self, asking: Asking) -> DbgError:
        if len(asking.ranks) < 2:
            return super().why_none_fits(asking)
        target = _named(asking)
        return NotStopped(f"none of the {len(asking.ranks)} ranks that match {target} is stopped", target)

    async def give(self, asker: Asker, ranks: Sequence[RankInfo]) -> OrderAnswer:
        moving = [rank for rank in ranks if is_moving(rank) and not is_ready(rank)]
        # Withdraw the interrupts of ranks that are still in C code: without this, such a rank would stop later.
        withdrawn = await asker.ask(Action.INTERRUPT, moving, withdrawn=True) if moving else []
        if any(map(is_ready, ranks)):
            return await super().give(asker, ranks)
        return answered(self.name, list(zip(moving, withdrawn, strict=True)), ranks)


class Release(RankCommand):
    """Release ranks that are held, waiting for others."""

    name = "release"
    example = "release held"
    in_session = Operands.MAYBE_TARGET
    help_in_session = "release all held ranks, or those of the target"
    usual = "all"

    def fits(self, rank: RankInfo) -> bool:
        return rank.state is RankState.HELD

    def why_none_fits(self, asking: Asking) -> DbgError:
        return NotHeld([rank.address for rank in asking.ranks], others=any(map(self.fits, asking.known)))


class Kill(RankCommand):
    """End ranks, after the user has confirmed."""

    name = "kill"
    example = "kill 5"
    in_session = Operands.TARGET
    help_in_session = "end ranks; asks first"

    def fits(self, rank: RankInfo) -> bool:
        return rank.state in LIVE_STATES

    def consent(self, ranks: Sequence[RankInfo]) -> tuple[str, Sequence[RankInfo]]:
        return "End", [rank for rank in ranks if self.fits(rank)]


def _named(asking: Asking) -> str:
    return asking.target.text if asking.target is not None else asking.ranks[0].address


class Interrupt(RanksVerb):
    """Stop ranks where they are; a terminal then attaches to a single rank."""

    name = "interrupt"
    example = "interrupt 4"
    operands = Operands.TARGET
    in_session = Operands.MAYBE_TARGET
    help_in_session = "break into running ranks; default: this one"
    usual = "running"
    is_about_this_rank = True
    for_agents = (
        "Break into running ranks: each stops where it is and stays stopped until it is resumed. Other ranks will "
        "wait for it in collectives."
    )

    attach: AttachOptions = AttachOptions()
    record: Recorded = None

    def check(self) -> None:
        self.attach.check()

    def may_change(self) -> bool:
        return True

    def consent(self, ranks: Sequence[RankInfo]) -> tuple[str, Sequence[RankInfo]]:
        moving = [rank for rank in ranks if is_moving(rank)]
        return "Break into", moving if len(moving) > 1 else []

    async def ask(self, asking: Asking) -> GroupedAnswer:
        asking.require_living()
        answers = await asking.asker.ask(Action.INTERRUPT, asking.ranks, frame=self.attach.frame)
        by_rank = tuple(zip(asking.ranks, answers, strict=True))
        return GroupedAnswer(
            command=self.name,
            answers=by_rank,
            grouped=tuple(group_answers(by_rank)),
            naming=Naming(asking.ranks),
            errors_fail=True,
        )
