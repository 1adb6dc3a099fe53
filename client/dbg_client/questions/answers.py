"""Ask ranks for a value, a command or their stacks, and group what they answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.core.asking import Asker
from dbg_client.core.collective_matching import match_collectives
from dbg_client.core.process_groups import read_evidence
from dbg_client.core.roll_call import RollCall
from dbg_client.views.groups import AnswerGroup, RankAndAnswer, group_answers
from dbg_client.views.missing import MissingInAnswer, missing_in_answer
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import StackGroup, group_stacks, missing_from_collectives, stacks_document
from dbg_client.views.tree import ThreadAnswers, group_threads, show_others, show_threads, show_tree, threads_document
from dbg_client.views.waits import recorded_collectives
from dbg_dial.waiting import within
from dbg_wire.errors import DbgError, PeerError, printable
from dbg_wire.messages import Action, Kind, Look, RankAnswer
from dbg_wire.records.inspection import Part, PartsQuestion
from dbg_wire.records.ranks import RankInfo

MAX_TWINS = 4
"""Groups that are compared with the first one of the same text; each difference takes a line."""

MAX_STEPS = 64
"""Questions for one difference: each one goes into a container, or into a 256th of a large one."""

MAX_NAMED = 4
"""Keys of a mapping that are named where several differ."""


_WHOLE_LENGTH = re.compile("… [0-9,]+ characters in all …")
"""How a rank says what it has left out in the middle of a text: two such texts may differ in nothing else."""


async def with_differences(
    asker: Asker, groups: Sequence[AnswerGroup], said: Sequence[RankAndAnswer], *, exact: bool
) -> Sequence[AnswerGroup]:
    """Return the groups; one that reads like an earlier one says where its value differs from the value of that one.

    No expression is evaluated again. All of it takes as long as one question may take at most. A group whose difference
    can't be found in that time is returned as it was.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + asker.seconds
    answers = {rank.key: answer for rank, answer in said}
    first: dict[str, AnswerGroup] = {}
    found: dict[str, str] = {}
    for group in groups:
        if group.kind != Kind.VALUE.value or not answers[group.ranks[0].key].exact:
            continue
        other = first.setdefault(_WHOLE_LENGTH.sub("…", group.text), group)
        if other is not group and len(found) < MAX_TWINS:
            pair = _Pair(asker, [(each.ranks[0], answers[each.ranks[0].key]) for each in (other, group)], exact=exact)
            try:
                where = await within(max(0.0, end - loop.time()), pair.difference())
            except (DbgError, TimeoutError):
                break
            found[group.id] = f"{where}, {other.id} first" if where else ""
    return [replace(group, difference=found.get(group.id, "")) for group in groups]


class _Pair:
    """Two ranks whose values differ."""

    def __init__(self, asker: Asker, pair: Sequence[tuple[RankInfo, RankAnswer]], *, exact: bool) -> None:
        self._asker = asker
        self._ranks = [rank for rank, _ in pair]
        self._of = tuple(answer.exact for _, answer in pair)
        self._exact = exact

    async def difference(self) -> str:
        """Return where the first difference is and what it is, empty if that can't be found. Raises DbgError."""
        path: tuple[str, ...] = ()
        label = named = ""
        texts = ("", "")
        for _ in range(MAX_STEPS):
            one, two = await self._parts(path)
            if not one or not two:
                break
            lonely = _lonely(one, two)
            if lonely:
                return f"{named}{_place(label)}{lonely}"
            differing = [part for part in one.values() if part.digest != two[part.step].digest]
            if not differing:
                return ""
            part = differing[0]
            named = named or _several(label, differing)
            path, label = (*path, part.step), label + part.label
            texts = part.text, two[part.step].text
        if not path or texts[0] == texts[1]:
            return ""
        return f"{named}first difference: {printable(label)}: {printable(texts[0])} | {printable(texts[1])}"

    async def _parts(self, path: tuple[str, ...]) -> list[Mapping[str, Part]]:
        question = PartsQuestion(of=self._of, path=path, exact=self._exact)
        answers = await self._asker.ask(Action.EVAL, self._ranks, inquiry=question)
        if any(answer.kind is not Kind.VALUE for answer in answers):
            raise PeerError("no parts of a value")
        return [{part.step: part for part in answer.rows if isinstance(part, Part)} for answer in answers]


def _lonely(one: Mapping[str, Part], two: Mapping[str, Part]) -> str:
    """Say which parts only one of the two ranks has."""
    only = [
        [part.label for part in ours.values() if part.step not in other] for ours, other in ((one, two), (two, one))
    ]
    if not any(only):
        return ""
    shown = [_names(labels) if labels else "nothing more" for labels in only]
    return f"first difference: {shown[0]} | {shown[1]}"


def _several(label: str, differing: Sequence[Part]) -> str:
    labels = [part.label for part in differing if part.label.startswith(("['", '["', "."))]
    return f"differ at {printable(label)}{_names(labels)}; " if len(labels) > 1 else ""


def _names(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return ", ".join(printable(label) for label in labels[:MAX_NAMED] if label) + more or "other parts"


def _place(label: str) -> str:
    return f"at {printable(label)}, " if label else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAnswer:
    """What ranks have answered to ``command``; equal answers are one group, and ``missing`` says who was not asked."""

    command: str
    said: tuple[RankAndAnswer, ...]
    groups: tuple[AnswerGroup, ...]
    naming: Naming
    missing: MissingInAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """How ranks evaluate, and when two of their values count as equal; the fields are those of the terminal's options.

    ``tolerance`` is the relative difference up to which floats are equal, None for none.
    """

    frame: str = ""
    live: bool = False
    stats: bool = False
    exact: bool = False
    tolerance: float | None = None


USUAL = ValueOptions()


async def ask_values(
    asker: Asker,
    ranks: Sequence[RankInfo],
    action: Action,
    command: str,
    *,
    wishes: ValueOptions = USUAL,
    calls: Sequence[RollCall] = (),
) -> ValueAnswer:
    """Have ranks evaluate an expression or run a command of pdb, and return the groups of their answers.

    ``calls`` tell of the ranks that should be among them and are missing. Raises DbgError if the broker fails.
    """
    answers = await asker.ask(action, ranks, command, live=wishes.live, stats=wishes.stats, frame=wishes.frame)
    is_value = action is Action.EVAL
    said = tuple(zip(ranks, answers, strict=True))
    groups = group_answers(said, exact=wishes.exact, tolerance=wishes.tolerance, compare=is_value)
    if is_value:
        groups = list(await with_differences(asker, groups, said, exact=wishes.exact))
    return ValueAnswer(
        command=command, said=said, groups=tuple(groups), naming=Naming(ranks), missing=who_is_missing(ranks, calls)
    )


def who_is_missing(ranks: Sequence[RankInfo], calls: Sequence[RollCall]) -> MissingInAnswer:
    """Return what an answer of these ranks says of those that could not be asked."""
    return missing_in_answer(calls, time.time(), several_jobs=len({rank.job for rank in ranks}) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAnswer:
    """Where ranks are: equal stacks as one group, ranks without a stack in ``others``.

    ``absent`` are the ranks that have not come to a collective in which others wait; None if there are none.
    ``threads`` has the stacks of all threads, if they were asked for.
    """

    said: tuple[RankAndAnswer, ...]
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
            text = show_threads(self.threads, self.naming, color=color)
        else:
            text = show_tree(self.stacks, self.others, self.naming, color=color, missing=self.missing)
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
    standings = recorded_collectives(matched)
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
