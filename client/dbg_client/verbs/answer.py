"""The answer of a verb: each interface shows it as a text or as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dbg_client.views.groups import AnswerGroup, RankAndAnswer, differ, groups_document, remembered, show_groups
from dbg_client.views.naming import NOBODY_MISSING, MissingInAnswer, Naming
from dbg_wire.messages import Kind
from dbg_wire.records.ranks import RankState

PARTIAL = 6
"""Exit status when some ranks did not answer."""

DIFFER = 1
"""Exit status of ``--fail-if-differ``; to `git bisect run` it is a bad commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a text is written: ``columns`` are those of the terminal, None for lines of any length."""

    color: bool = False
    columns: int | None = None


PLAIN = Style()


class Answer(Protocol):
    """What a verb has found out."""

    @property
    def status(self) -> int:
        """The exit status of a command that prints this."""

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The keys of the ranks of each group, by names that are targets afterwards, such as ``@1``."""

    @property
    def hint(self) -> str:
        """A sentence on why there is no more; empty for none."""

    def text(self, style: Style = PLAIN) -> str:
        """Return the answer as lines."""

    def document(self) -> object:
        """Return the answer as the JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedAnswer:
    """Answers of ranks of which equal ones are one group; ``missing`` says which ranks were not asked.

    ``fails_if_different`` makes differing values a failure.
    """

    command: str
    answers: tuple[RankAndAnswer, ...]
    grouped: tuple[AnswerGroup, ...]
    naming: Naming
    missing: MissingInAnswer = NOBODY_MISSING
    hint: str = ""
    fails_if_different: bool = False
    errors_fail: bool = False

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        return remembered(self.grouped)

    @property
    def status(self) -> int:
        if self.fails_if_different:
            if differ(self.grouped):
                return DIFFER
            # Ranks that run have not been compared, and a script must not take them for equal.
            if any(answer.kind is Kind.RUNNING for _, answer in self.answers):
                return PARTIAL
        if left_unanswered(self.answers):
            return PARTIAL
        has_failed = self.errors_fail and any(answer.kind is Kind.ERROR for _, answer in self.answers)
        return 1 if has_failed or self.hint else 0

    def text(self, style: Style = PLAIN) -> str:
        return show_groups(self.command, self.grouped, self.naming, color=style.color, missing=self.missing)

    def document(self) -> dict[str, object]:
        return groups_document(self.command, self.grouped, self.naming, self.missing)


def left_unanswered(answers: Sequence[RankAndAnswer]) -> bool:
    """Whether a rank that could have answered did not; an exited rank can't."""
    return any(
        answer.kind is Kind.SILENT or (answer.kind is Kind.LOST and rank.state is not RankState.EXITED)
        for rank, answer in answers
    )
