"""What ranks have answered, as objects: the same groups and texts that the terminal shows."""

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
"""Characters of one line: as many as an answer has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks that have answered the same.

    ``id`` is a target afterwards, as in ``job["@1"]``. ``kind`` is ``value``, ``error``, ``stack``, ``running``,
    ``silent`` or ``lost``. ``ranks`` is a set as in ``0-6,9``, and ``addresses`` names each rank. ``frames`` is
    a stack, the outermost frame first.
    """

    id: str
    kind: str
    ranks: str
    addresses: tuple[str, ...]
    text: str
    frames: tuple[Place, ...] = ()

    @property
    def count(self) -> int:
        """Return how many ranks it has."""
        return len(self.addresses)


class Shown:
    """An answer whose text is all that a prompt of Python shows of it."""

    def __init__(self, answer: VerbAnswer) -> None:
        self._shown = answer

    @property
    def document(self) -> Any:
        """Return the document that ``--json`` prints."""
        return self._shown.document()

    def __str__(self) -> str:
        return self._shown.text()

    def __repr__(self) -> str:
        return str(self).rstrip("\n")


class Answer(Shown):
    """What ranks have answered to an expression or a command of pdb.

    ``str()`` of it is the table that the terminal shows.
    """

    def __init__(self, answer: GroupedAnswer) -> None:
        super().__init__(answer)
        self._answer = answer
        self.command = answer.command
        self.groups: tuple[Group, ...] = tuple(_group(one, answer.naming) for one in answer.grouped)
        """The biggest group first."""

    @property
    def values(self) -> Mapping[str, str]:
        """Return the text of each rank that has answered with a value, by its address."""
        return self._texts(Kind.VALUE)

    @property
    def errors(self) -> Mapping[str, str]:
        """Return the exception of each rank in which the expression has raised one, by its address."""
        return self._texts(Kind.ERROR)

    @property
    def missing(self) -> Mapping[str, str]:
        """Return why each other rank has not answered, by its address: it runs, is silent, or was lost."""
        return {
            rank.address: safe_text(answer.text)
            for rank, answer in self._answer.answers
            if answer.kind not in (Kind.VALUE, Kind.ERROR)
        }

    def _texts(self, kind: Kind) -> dict[str, str]:
        return {rank.address: safe_text(answer.text) for rank, answer in self._answer.answers if answer.kind is kind}


class Where(Shown):
    """Where ranks are; :meth:`tree` merges their stacks."""

    def __init__(self, answer: StackAnswer) -> None:
        super().__init__(answer)
        self.groups: tuple[Group, ...] = tuple(_group(one, answer.naming) for one in answer.grouped)

    def tree(self) -> str:
        """Return all stacks as one tree, as the terminal shows it."""
        return str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that is wrong with a job, or that nothing is; the fields are those of ``dbg-attach why --json``."""

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
    """What slows a job down, or that nothing does; the fields are those of ``dbg-attach slow --json``."""

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


class Why(Shown):
    """Why a job does not go on, the worst verdict first."""

    def __init__(self, answer: VerbAnswer, missing: Sequence[RankInfo]) -> None:
        super().__init__(answer)
        self.verdicts: tuple[Verdict, ...] = _verdicts(Verdict, self.document["verdicts"])
        self.missing: tuple[str, ...] = tuple(rank.address for rank in missing)
        """The addresses of ranks that have not come to a collective in which others wait."""


class Slow(Shown):
    """Who slows a job down, the rank that costs most first."""

    def __init__(self, answer: VerbAnswer) -> None:
        super().__init__(answer)
        self.verdicts: tuple[SlowVerdict, ...] = _verdicts(SlowVerdict, self.document["verdicts"])


class Collectives(Shown):
    """The last collective of each process group, and who is in it."""


def safe_text(text: str) -> str:
    """Return a rank's text with its control characters escaped but for line ends, so that a program may print it."""
    return "\n".join(printable(line, MAX_LINE) for line in text.split("\n"))


def _verdicts(kind: Callable[..., T], rows: Any) -> tuple[T, ...]:
    """Return the verdicts of a JSON document as objects, in which sets of ranks are texts."""
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
