"""Rows of ranks and answers, prepared on the server for a page to draw. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from dbg_client.core.choose import find_missing_ranks
from dbg_client.numbers.answer import NumbersAnswer
from dbg_client.verbs.list import list_ranks
from dbg_client.verbs.verb import Answer, GroupedAnswer, Style
from dbg_client.verbs.where import StackAnswer
from dbg_client.views.groups import AnswerGroup, summary
from dbg_client.views.list import show_place
from dbg_client.views.naming import Naming, absent_rows
from dbg_client.views.stacks import StackGroup
from dbg_client.views.tree import show_frame, summary_of_stacks, tree_lines, trees_of
from dbg_client.web import messages
from dbg_client.why.show import verdict_document
from dbg_client.why.verb import WhyAnswer
from dbg_client.why.verdict import Verdict, VerdictKind
from dbg_command.targets import Target, select
from dbg_wire.errors import AmbiguousTarget, NoSuchRank
from dbg_wire.records.ranks import CRASH, RankInfo, RankState

TEXT_COLUMNS = 90
"""Columns for sentences in an answer; the panel of answers is about this wide."""

_encoder = msgspec.json.Encoder()


def row_of(rank: RankInfo) -> msgspec.Raw:
    """Return the row of a rank."""
    has_crashed = rank.state is RankState.STOPPED and rank.reason == CRASH
    watching = f"{rank.watchers} watching" if rank.watchers else ""
    queued = f"{rank.queued} queued" if rank.queued else ""
    document = {
        **{name: getattr(rank, name) for name in ("key", "address", "job", "host", "rank", "local_rank", "child")},
        "state": "crashed" if has_crashed else rank.state.value,
        "place": show_place(rank.where) or "",
        "since": rank.since,
        "who": ", ".join(filter(None, [rank.driver, watching])),
        "detail": "; ".join(filter(None, [rank.detail, queued])),
        "coordinates": {one.axis: one.index for one in rank.coordinates},
    }
    return msgspec.Raw(_encoder.encode(document))


def shown(number: int, answer: Answer, whom: str) -> messages.Answer:
    """Return the message that answers the question with this number."""
    messages_sent = messages.Answer(id=number, at=time.time(), whom=whom)
    if isinstance(answer, WhyAnswer):
        return messages_sent.replace(verdicts=verdicts_of(answer.found.verdicts))
    if isinstance(answer, NumbersAnswer):
        wrong = answer.wrong[0][1].step if answer.wrong else 0
        return messages_sent.replace(
            text=answer.text(Style(columns=TEXT_COLUMNS)), curve=tuple(answer.curve), wrong=wrong
        )
    if isinstance(answer, StackAnswer):
        return messages_sent.replace(
            summary=summary_of_stacks(answer.stacks, answer.others, answer.missing),
            groups=_groups(answer.grouped, answer.naming),
            tree=tuple(_branches(answer)),
        )
    if isinstance(answer, GroupedAnswer):
        head = summary(answer.command, answer.grouped, answer.missing)
        text = f"{head}. {answer.hint}" if answer.hint else head
        return messages_sent.replace(summary=text, groups=_groups(answer.grouped, answer.naming))
    return messages_sent.replace(text=answer.text() or answer.hint)


def verdicts_of(verdicts: Sequence[Verdict], *, harmless: bool = True) -> tuple[msgspec.Raw, ...]:
    """Return the JSON documents of verdicts; without ``harmless``, leave out verdicts that report no problem.

    ``line`` in each document is the line that the page can send to do the verdict's next step.
    """
    wanted = [one for one in verdicts if harmless or one.kind is not VerdictKind.BUSY]
    return tuple(msgspec.Raw(_encoder.encode({**verdict_document(one), "line": _line_of(one)})) for one in wanted)


def _line_of(verdict: Verdict) -> str:
    """Return the line that a page can send to do a verdict's next step, or "" if the step needs a terminal."""
    if verdict.next is None or verdict.next.remedy.verb == "attach":
        return ""
    remedy = verdict.next.remedy
    return " ".join(filter(None, [remedy.verb, remedy.ranks, *remedy.options]))


def _groups(groups: Sequence[AnswerGroup], naming: Naming) -> tuple[messages.Group, ...]:
    return tuple(
        messages.Group(
            id=group.id,
            kind=group.kind,
            ranks=naming.names(group.ranks),
            text=_text_of(group),
            keys=tuple(rank.key for rank in group.ranks),
        )
        for group in groups
    )


def _text_of(group: AnswerGroup) -> str:
    if isinstance(group, StackGroup) and group.frames:
        return show_frame(group.frames[-1])
    return f"{group.text}\n({group.frame})" if group.frame else group.text


def _branches(answer: StackAnswer) -> Iterator[messages.Branch]:
    for title, groups in trees_of(answer.stacks, answer.naming):
        if title:
            yield messages.Branch(depth=0, count=0, text=title, groups=(), is_odd=False)
        for line in tree_lines(groups, answer.naming):
            text = f"[{line.ranks}] {line.places}" + (f" ({line.state})" if line.state else "")
            yield messages.Branch(
                depth=len(line.lead) // 3, count=line.count, text=text, groups=line.groups, is_odd=line.is_odd
            )


class RowChanges(NamedTuple):
    """Changes of the rows; ``gone`` has the keys of removed rows."""

    rows: tuple[msgspec.Raw, ...]
    gone: tuple[str, ...]


class Rows:
    """Rows of the ranks that ``list`` shows for ``target``, None for all ranks; only changed ranks get new rows."""

    def __init__(self, target: Target | None) -> None:
        self._missing: tuple[str, ...] = ()
        self.target = target
        self._ranks: dict[str, RankInfo] = {}
        self._rows: dict[str, msgspec.Raw] = {}
        self._sizes: dict[str, int] = {}

    @property
    def all(self) -> tuple[msgspec.Raw, ...]:
        """All rows."""
        return tuple(self._rows.values())

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """The ranks of the rows."""
        return tuple(self._ranks.values())

    def rank(self, key: str) -> RankInfo | None:
        """Return the rank of a row, or None if the row does not exist."""
        return self._ranks.get(key)

    @property
    def job(self) -> messages.Job:
        """The axes of the mesh, if ranks report any, and the missing ranks."""
        axes = tuple(messages.Axis(name=name, size=size) for name, size in self._sizes.items())
        return messages.Job(axes=axes, missing=self._missing)

    def choose(self, known: Sequence[RankInfo]) -> RowChanges:
        """Store the ranks that are listed now, and return the changed rows."""
        shown = {rank.key: rank for rank in list_ranks(known, self.target, self._fitting(known))}
        gone = tuple(key for key in self._ranks if key not in shown)
        for key in gone:
            del self._ranks[key], self._rows[key]
        rows: list[msgspec.Raw] = []
        for key, now in shown.items():
            if now is self._ranks.get(key):
                continue
            self._ranks[key] = now
            row = row_of(now)
            if row != self._rows.get(now.key):
                self._rows[now.key] = row
                rows.append(row)
                for one in now.coordinates:
                    self._sizes[one.axis] = max(self._sizes.get(one.axis, 0), one.index + 1)
        self._call_roll(known)
        return RowChanges(tuple(rows), gone)

    def _call_roll(self, known: Sequence[RankInfo]) -> None:
        absent = find_missing_ranks(known, self.target)
        several_jobs = len({rank.job for rank in self._ranks.values()}) > 1
        self._missing = tuple(absent_rows(absent, several_jobs=several_jobs).splitlines())

    def _fitting(self, known: Sequence[RankInfo]) -> Sequence[RankInfo]:
        if self.target is None:
            return ()
        try:
            return select(self.target, known, any_job=True).ranks
        except (NoSuchRank, AmbiguousTarget):
            return ()
