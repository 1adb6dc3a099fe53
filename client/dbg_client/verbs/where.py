"""``where``: the stacks of ranks, merged into one tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from dbg_client.verbs.option import Heading, Operands, Option
from dbg_client.verbs.table import ANNOTATE, load
from dbg_client.verbs.verb import PARTIAL, PLAIN, Answer, Asking, Style, WaitingVerb, left_unanswered, refuse
from dbg_client.views.groups import AnswerGroup, RankAndAnswer, remembered
from dbg_client.views.naming import MissingInAnswer, Naming
from dbg_client.views.stacks import StackGroup, group_stacks, stacks_document
from dbg_client.views.tree import show_others, show_tree
from dbg_wire.messages import Action, DetailLevel

WithExited = Annotated[bool, Option("--all", in_session=True, help="include all exited ranks")]


class Where(WaitingVerb):
    """Merge the stacks of ranks into one tree; running ranks answer, too."""

    name = "where"
    example = "where all"
    operands = Operands.MAYBE_TARGET
    in_session = Operands.MAYBE_TARGET
    help_in_session = "stacks of all ranks, or of these, as one tree"
    usual = "all"
    without_target = True
    for_agents = "Show the stacks of ranks, including running ranks, merged into one tree. Does not stop any rank."

    threads: Annotated[
        bool, Option("--threads", heading=Heading.ASKING, in_session=True, help="all threads of each rank")
    ] = False
    native: Annotated[
        bool,
        Option(
            "--native",
            heading=Heading.ASKING,
            in_session=True,
            help="frames of C code, too, read by py-spy on each rank's host; it briefly pauses the rank",
        ),
    ] = False
    all: WithExited = False

    def check(self) -> None:
        super().check()
        refuse(
            self.native and self.threads,
            "--native shows only the main thread, and --threads all threads",
        )

    @property
    def with_exited(self) -> bool:
        return self.all

    def may_change(self) -> bool:
        return self.native

    async def ask(self, asking: Asking) -> StackAnswer:
        action = Action.NATIVE if self.native else Action.WHERE
        answers = await asking.asker.ask(action, asking.ranks, threads=self.threads, look=DetailLevel.COLLECTIVES)
        by_rank = tuple(zip(asking.ranks, answers, strict=True))
        notes = load(ANNOTATE)(asking.ranks, answers)
        stacks, others = group_stacks(by_rank, asking.known, notes.notes, threads=self.threads)
        return StackAnswer(
            answers=by_rank,
            stacks=tuple(stacks),
            others=tuple(others),
            absent=notes.absent,
            naming=Naming(asking.ranks),
            missing=asking.missing(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAnswer(Answer):
    """Stacks of ranks: ranks with equal stacks form one group, ranks without a stack are in ``others``.

    ``absent`` are the ranks that have not reached a collective where others wait, or None.
    """

    answers: tuple[RankAndAnswer, ...]
    stacks: tuple[StackGroup, ...]
    others: tuple[AnswerGroup, ...]
    absent: AnswerGroup | None
    naming: Naming
    missing: MissingInAnswer

    @property
    def grouped(self) -> tuple[AnswerGroup, ...]:
        """All groups; the group of ranks that are absent from a collective is last."""
        return (*self.stacks, *self.others, *([self.absent] if self.absent is not None else ()))

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        return remembered(self.grouped)

    @property
    def status(self) -> int:
        return PARTIAL if left_unanswered(self.answers) else 0

    def text(self, style: Style = PLAIN) -> str:
        text = show_tree(self.stacks, self.others, self.naming, color=style.color, missing=self.missing)
        if self.absent is not None:
            text += "".join(f"{line}\n" for line in show_others([self.absent], self.naming))
        return text

    def document(self) -> dict[str, object]:
        return stacks_document(self.stacks, self.others, self.naming, self.missing)
