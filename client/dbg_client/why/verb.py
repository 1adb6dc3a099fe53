"""Verbs ``why`` and ``collectives``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.verbs.option import Operands
from dbg_client.verbs.table import WHY_OF_FILES, load
from dbg_client.verbs.verb import PARTIAL, PLAIN, Answer, Asking, Style, WaitingVerb
from dbg_client.views.stacks import MISSING
from dbg_client.why.collective_matching import Matched
from dbg_client.why.collectives import collectives_document, missing_from_collectives, show_collectives
from dbg_client.why.explain import Explanation, HangEvidence
from dbg_client.why.show import show_verdicts, verdicts_document
from dbg_client.why.verdict import exit_status
from dbg_wire.messages import Kind


class Why(WaitingVerb):
    """Explain why jobs hang; ``files`` are the arguments that are taken for files, not for a target."""

    name = "why"
    example = "why"
    operands = Operands.MAYBE_FILES
    in_session = Operands.MAYBE_TARGET
    help_in_session = "why the job hangs, and which ranks are missing"
    usual = "all"
    without_target = True
    for_agents = (
        "Explain why a job hangs: which rank has not reached which collective, which is dead, stuck or deadlocked, or "
        "that the job is busy; with the evidence and the next step. Stops no rank. Use this first for a hang."
    )

    files: tuple[str, ...] = ()

    def start(self) -> int | None:
        status: int | None = load(WHY_OF_FILES)(self) if self.files or self.target else None
        return status

    async def ask(self, asking: Asking) -> WhyAnswer:
        from dbg_client.why.questions import judge

        case, found = await judge(asking.asker, asking.ranks, asking.known, show=asking.show)
        return WhyAnswer(case, found)


@dataclass(frozen=True, slots=True)
class WhyAnswer(Answer):
    """Evidence of a job and the verdicts on it."""

    case: HangEvidence | None
    found: Explanation

    @property
    def status(self) -> int:
        return exit_status(self.found.verdicts)

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        return {MISSING: tuple(rank.key for rank in self.found.missing)}

    def text(self, style: Style = PLAIN) -> str:
        return show_verdicts(self.found.verdicts, color=style.color, columns=style.columns, word=style.word)

    def document(self) -> dict[str, object]:
        return verdicts_document(self.found)


class Collectives(WaitingVerb):
    """Show the last collective of each process group, and the ranks in it."""

    name = "collectives"
    example = "collectives"
    operands = Operands.MAYBE_TARGET
    in_session = Operands.MAYBE_TARGET
    help_in_session = "each group's last collective, and the ranks in it"
    usual = "all"
    without_target = True
    for_agents = "Show the last collective of each process group, and which ranks are in it."

    async def ask(self, asking: Asking) -> CollectivesAnswer:
        from dbg_client.why.questions import ask_collectives

        matched, answers = await ask_collectives(asking.asker, asking.ranks, asking.known)
        silent = any(answer.kind is Kind.SILENT for answer in answers)
        return CollectivesAnswer(tuple(matched), is_partial=silent)


@dataclass(frozen=True, slots=True)
class CollectivesAnswer(Answer):
    """Last collective of each process group."""

    matched: tuple[Matched, ...]
    is_partial: bool = False

    @property
    def status(self) -> int:
        has_collectives = any(one.reports_collectives for each in self.matched for one in each.roster.values())
        return PARTIAL if self.is_partial or not has_collectives else 0

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        absent = missing_from_collectives(self.matched)
        return {MISSING: tuple(rank.key for rank in absent.ranks) if absent is not None else ()}

    def text(self, style: Style = PLAIN) -> str:
        return show_collectives(self.matched, color=style.color)

    def document(self) -> dict[str, object]:
        return collectives_document(self.matched)
