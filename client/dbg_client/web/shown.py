"""What a page draws of ranks and answers, finished. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from dbg_client.verbs.verb import Answer, GroupedAnswer
from dbg_client.verbs.where import StackAnswer
from dbg_client.views.groups import AnswerGroup, summary
from dbg_client.views.list import show_place
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import StackGroup
from dbg_client.views.tree import show_frame, summary_of_threads, tree_lines, trees_of_threads
from dbg_client.web import messages
from dbg_client.why.show import verdict_document
from dbg_client.why.verb import WhyAnswer
from dbg_client.why.verdict import Verdict, VerdictKind
from dbg_wire.records.ranks import CRASH, RankInfo, RankState

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
    """Return the message for the answer to the question with this number."""
    told = messages.Answer(id=number, at=time.time(), whom=whom)
    if isinstance(answer, WhyAnswer):
        return told.replace(verdicts=verdicts_of(answer.found.verdicts))
    if isinstance(answer, StackAnswer):
        return told.replace(
            summary=_summary_of(answer),
            groups=_groups(answer.grouped, answer.naming),
            tree=tuple(_branches(answer)),
        )
    if isinstance(answer, GroupedAnswer):
        head = summary(answer.command, answer.grouped, answer.missing)
        text = f"{head}. {answer.hint}" if answer.hint else head
        return told.replace(summary=text, groups=_groups(answer.grouped, answer.naming))
    return told.replace(text=answer.text() or answer.hint)


def verdicts_of(verdicts: Sequence[Verdict], *, harmless: bool = True) -> tuple[msgspec.Raw, ...]:
    """Return the documents of verdicts, without ``harmless`` only of those that are no good news."""
    wanted = [one for one in verdicts if harmless or one.kind is not VerdictKind.BUSY]
    return tuple(msgspec.Raw(_encoder.encode(document)) for document in map(verdict_document, wanted))


def _summary_of(answer: StackAnswer) -> str:
    if answer.threads is not None:
        return summary_of_threads(answer.threads)
    return summary("where", [*answer.stacks, *answer.others], answer.missing)


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
    return "\n".join([group.text, *(f"({note})" for note in (group.frame, group.difference) if note)])


def _branches(answer: StackAnswer) -> Iterator[messages.Branch]:
    trees = [("", answer.stacks)] if answer.threads is None else trees_of_threads(answer.threads, answer.naming)
    for title, groups in trees:
        if title:
            yield messages.Branch(depth=0, count=0, text=title, groups=(), is_odd=False)
        for line in tree_lines(groups, answer.naming):
            text = f"[{line.ranks}] {line.places}" + (f" ({line.state})" if line.state else "")
            yield messages.Branch(
                depth=len(line.lead) // 3, count=line.count, text=text, groups=line.groups, is_odd=line.is_odd
            )
