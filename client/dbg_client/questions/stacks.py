"""Ask ranks where they are, and merge their stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_client.core.collective_matching import match_collectives
from dbg_client.core.rank_evidence import read_evidence
from dbg_client.core.roll_call import RollCall
from dbg_client.questions.values import who_is_missing
from dbg_client.views.groups import AnswerGroup, Said
from dbg_client.views.missing import MissingInAnswer
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import StackGroup, group_stacks, missing_from_collectives, stacks_document
from dbg_client.views.tree import ThreadAnswers, group_threads, show_others, show_threads, show_tree, threads_document
from dbg_client.views.waits import recorded_standings
from dbg_wire.messages import Action, Look
from dbg_wire.records.ranks import RankInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAnswer:
    """Where ranks are: equal stacks as one group, ranks without a stack in ``others``.

    ``absent`` are the ranks that have not come to a collective in which others wait; None if there are none.
    ``threads`` has the stacks of all threads, if they were asked for.
    """

    said: tuple[Said, ...]
    stacks: tuple[StackGroup, ...]
    others: tuple[AnswerGroup, ...]
    absent: AnswerGroup | None
    naming: Naming
    missing: MissingInAnswer
    threads: ThreadAnswers | None = None

    @property
    def groups(self) -> tuple[AnswerGroup, ...]:
        """Return all groups, those that are absent from a collective last."""
        return (*self.stacks, *self.others, *([self.absent] if self.absent is not None else ()))

    def shown(self, *, color: bool = False) -> str:
        """Return the stacks as one tree, or the threads by their names."""
        if self.threads is not None:
            text = show_threads(self.threads, self.naming, command="where", color=color)
        else:
            text = show_tree(self.stacks, self.others, self.naming, command="where", color=color, missing=self.missing)
        if self.absent is not None:
            text += "".join(f"{line}\n" for line in show_others([self.absent], self.naming))
        return text

    def document(self) -> dict[str, object]:
        """Return what becomes the JSON document."""
        if self.threads is not None:
            return threads_document(self.threads, self.naming)
        return stacks_document(self.stacks, self.others, self.naming, self.missing)


async def ask_stacks(
    asker: Asker,
    ranks: Sequence[RankInfo],
    *,
    known: Sequence[RankInfo] | None = None,
    calls: Sequence[RollCall] = (),
    threads: bool = False,
    native: bool = False,
    frame: str = "",
) -> StackAnswer:
    """Ask ranks for their stacks, and return them in groups; ranks that run answer, too.

    ``known`` are all ranks there are: a rank in a collective waits for those that stand still. With ``native`` the
    frames of C code are among the others. Raises DbgError if the broker fails.
    """
    action = Action.NATIVE if native else Action.WHERE
    answers = await asker.ask(action, ranks, threads=threads, frame=frame, look=Look.COLLECTIVES)
    said = tuple(zip(ranks, answers, strict=True))
    matched = match_collectives(read_evidence(ranks, answers))
    standings = recorded_standings(matched)
    by_thread = group_threads(said, known, standings) if threads else None
    stacks, others = (
        (by_thread.stacks, by_thread.others) if by_thread is not None else group_stacks(said, known, standings)
    )
    return StackAnswer(
        said=said,
        stacks=tuple(stacks),
        others=tuple(others),
        absent=missing_from_collectives(matched),
        naming=Naming(ranks),
        missing=who_is_missing(ranks, calls),
        threads=by_thread,
    )
