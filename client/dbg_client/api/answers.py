"""Answers of ranks as objects, with the same groups and texts as in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dbg_client.verbs.verb import Answer as VerbAnswer
from dbg_client.verbs.verb import GroupedAnswer
from dbg_client.verbs.where import StackAnswer
from dbg_client.views.groups import AnswerGroup
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import StackGroup
from dbg_wire.errors import printable
from dbg_wire.messages import Kind
from dbg_wire.records.ranks import Place, RankInfo

T = TypeVar("T")

MAX_LINE = 16 * 1024
"""Maximum length of one line, in characters. A whole answer is not longer, so no line is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks with the same answer.

    ``id`` can be used as a target afterwards, as in ``job["@1"]``. ``kind`` is ``value``, ``error``, ``stack``,
    ``running``, ``silent`` or ``lost``. ``ranks`` is a rank set such as ``0-6,9``, and ``addresses`` has the address of
    each rank. ``frames`` is a stack, the outermost frame first.
    """

    id: str
    kind: str
    ranks: str
    addresses: tuple[str, ...]
    text: str
    frames: tuple[Place, ...] = ()

    @property
    def count(self) -> int:
        """Number of ranks in the group."""
        return len(self.addresses)


class RenderedAnswer:
    """An answer whose ``repr()`` is its text, for a Python prompt."""

    def __init__(self, answer: VerbAnswer) -> None:
        self._shown = answer

    @property
    def document(self) -> Any:
        """The document that ``--json`` prints."""
        return self._shown.document()

    def __str__(self) -> str:
        return self._shown.text()

    def __repr__(self) -> str:
        return str(self).rstrip("\n")


class Answer(RenderedAnswer):
    """Answers of ranks to an expression or a pdb command.

    ``str()`` returns the table that the terminal shows.
    """

    def __init__(self, answer: GroupedAnswer) -> None:
        super().__init__(answer)
        self._answer = answer
        self.command = answer.command
        self.groups: tuple[Group, ...] = tuple(_group(one, answer.naming) for one in answer.grouped)
        """The groups, the biggest first."""

    @property
    def values(self) -> Mapping[str, str]:
        """Text of the value of each rank that answered with a value, by address."""
        return self._texts(Kind.VALUE)

    @property
    def errors(self) -> Mapping[str, str]:
        """Text of the exception of each rank that answered with an exception, by address."""
        return self._texts(Kind.ERROR)

    @property
    def missing(self) -> Mapping[str, str]:
        """Reason why a rank is neither in ``values`` nor in ``errors``, by address: it runs, is silent, or was lost."""
        return {
            rank.address: safe_text(answer.text)
            for rank, answer in self._answer.answers
            if answer.kind not in (Kind.VALUE, Kind.ERROR)
        }

    def _texts(self, kind: Kind) -> dict[str, str]:
        return {rank.address: safe_text(answer.text) for rank, answer in self._answer.answers if answer.kind is kind}


class Where(RenderedAnswer):
    """Stacks of ranks; :meth:`tree` merges them."""

    def __init__(self, answer: StackAnswer) -> None:
        super().__init__(answer)
        self.groups: tuple[Group, ...] = tuple(_group(one, answer.naming) for one in answer.grouped)

    def tree(self) -> str:
        """Return all stacks as one tree, as in the terminal."""
        return str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One problem of a job, or the statement that nothing is wrong.

    The fields are the fields of ``dbg-attach why --json``.
    """

    kind: str
    sentence: str
    job: str
    certainty: str | None
    ranks: str
    others: str
    cause: str | None
    group: str | None
    collective: str | None
    sequence: int | None
    age: float | None
    evidence: tuple[str, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowVerdict:
    """One cause that slows a job down, or the statement that nothing does.

    The fields are the fields of ``dbg-attach slow --json``.
    """

    kind: str
    certainty: str
    sentence: str
    job: str
    ranks: str
    group: str | None
    collective: str | None
    times: int | None
    count: int | None
    by: float | None
    lost: float | None
    evidence: tuple[str, ...]
    next: str | None


class Why(RenderedAnswer):
    """Reasons why a job makes no progress, the worst verdict first."""

    def __init__(self, answer: VerbAnswer, missing: Sequence[RankInfo]) -> None:
        super().__init__(answer)
        self.verdicts: tuple[Verdict, ...] = _verdicts(Verdict, self.document["verdicts"])
        self.missing: tuple[str, ...] = tuple(rank.address for rank in missing)
        """Addresses of the ranks that other ranks wait for in a collective."""


class Slow(RenderedAnswer):
    """Ranks that slow a job down, the most costly one first."""

    def __init__(self, answer: VerbAnswer) -> None:
        super().__init__(answer)
        self.verdicts: tuple[SlowVerdict, ...] = _verdicts(SlowVerdict, self.document["verdicts"])


class Numbers(RenderedAnswer):
    """The watches over the numbers of ranks; ``wrong`` are the first wrong numbers of ranks, the earliest first.

    Each has the keys of ``wrong`` in ``dbg-attach numbers --json``.
    """

    def __init__(self, answer: VerbAnswer) -> None:
        super().__init__(answer)
        self.wrong: tuple[Mapping[str, Any], ...] = tuple(self.document["wrong"])


class Collectives(RenderedAnswer):
    """The most recent collective of each process group, and the ranks in it."""


def safe_text(text: str) -> str:
    """Escape the control characters in a rank's text, except line ends, so that a program may print it."""
    return "\n".join(printable(line, MAX_LINE) for line in text.split("\n"))


def _verdicts(kind: Callable[..., T], rows: Any) -> tuple[T, ...]:
    """Return the verdicts of a JSON document as objects; a rank set that is null becomes an empty text."""
    texts = [{name: row[name] or "" for name in ("ranks", "others") if name in row} for row in rows]
    return tuple(
        kind(**{**row, **text, "evidence": tuple(row["evidence"])}) for row, text in zip(rows, texts, strict=True)
    )


def _group(group: AnswerGroup, naming: Naming) -> Group:
    return Group(
        id=group.id,
        kind=group.kind,
        ranks=naming.names(group.ranks),
        addresses=tuple(rank.address for rank in group.ranks),
        text=safe_text(group.text),
        frames=group.frames if isinstance(group, StackGroup) else (),
    )
