"""Find where two values differ that read the same, by asking ranks for their parts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbg_client.core.asking import Asker
from dbg_client.views.groups import AnswerGroup, RankAndAnswer
from dbg_dial.waiting import within
from dbg_wire.errors import DbgError, PeerError, printable
from dbg_wire.messages import Action, Kind, RankAnswer
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
