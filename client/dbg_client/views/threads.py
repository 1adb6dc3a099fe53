"""The stacks of all threads of many ranks: a tree for each name of threads, and their JSON. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.core.collective_matching import Standing
from dbg_client.views.ages import Age, age_of
from dbg_client.views.groups import AnswerGroup, Said, count_answered, counted, group_answers, show_ranks
from dbg_client.views.naming import Naming, order
from dbg_client.views.stacks import StackGroup, stacks_document, state_of, usual_standing
from dbg_client.views.tree import draw, show_others
from dbg_client.views.waits import NO_STANDINGS, StillRanks
from dbg_wire.errors import printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo, ThreadStack

MAIN = "MainThread"
"""Python's name of a process's main thread."""

ONLY_ONE = "main or stopped thread"
"""The name of the thread whose stack comes from a rank that tells no others, as one in C code."""

_NUMBERED = re.compile(r"Thread-\d+ \((.+)\)")
_NUMBERS = re.compile(r"(Thread|Dummy|ThreadPoolExecutor|asyncio)[-_]\d+(_\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadAnswers:
    """The groups of threads with the same name and stack, those of ranks without a stack, and how many were asked."""

    stacks: Sequence[StackGroup]
    others: Sequence[AnswerGroup]
    asked: int
    answered: int


def group_threads(
    said: Sequence[Said],
    known: Sequence[RankInfo] | None = None,
    standings: Mapping[str, Standing] = NO_STANDINGS,
) -> ThreadAnswers:
    """Return the groups: main threads first, then the names that most ranks have.

    ``known`` are all ranks there are, ``standings`` the collectives that ranks have told, by their keys.
    """
    still = StillRanks([rank for rank, _ in said] if known is None else known)
    gathered: defaultdict[tuple[str, str, tuple[Place, ...]], list[tuple[RankInfo, str, Age]]] = defaultdict(list)
    without: list[Said] = []
    for rank, answer in said:
        if not answer.frames and not answer.threads and answer.kind is not Kind.VALUE:
            without.append((rank, answer))
            continue
        kind = answer.kind.value if answer.kind in (Kind.SILENT, Kind.LOST) else "stack"
        for thread in answer.threads or (ThreadStack(name=ONLY_ONE, frames=answer.frames, halted=True),):
            is_asked_one = _is_asked_one(thread, answer)
            standing = standings.get(rank.key) if is_asked_one else None
            state = state_of(rank, _of_thread(answer, thread), still, standing)
            age = age_of(answer) if is_asked_one else Age()
            gathered[kind, common_name(thread.name), thread.frames].append((rank, state, age))
    groups = [_group(kind, name, frames, some) for (kind, name, frames), some in gathered.items()]
    others = group_answers(without, compare=False)
    ranks_of: defaultdict[str, set[str]] = defaultdict(set)
    for group in groups:
        ranks_of[group.thread or ""] |= {rank.key for rank in group.ranks}
    groups.sort(
        key=lambda one: (
            one.thread != MAIN,
            -len(ranks_of[one.thread or ""]),
            one.thread,
            -one.count,
            order(one.ranks[0]),
        )
    )
    stacks = [
        replace(
            group,
            id=f"@{number}",
            standing=usual_standing(group.ranks, standings) if group.thread in (MAIN, ONLY_ONE) else None,
        )
        for number, group in enumerate(groups, 1)
    ]
    answered = {rank.key for group in stacks if group.kind == "stack" for rank in group.ranks}
    return ThreadAnswers(stacks=stacks, others=others, asked=len(said), answered=len(answered) + count_answered(others))


def common_name(name: str) -> str:
    """Return a thread's name without the number that Python gives it, so that it is the same in every rank."""
    target = _NUMBERED.fullmatch(name)
    if target is not None:
        return target[1]
    numbered = _NUMBERS.fullmatch(name)
    return numbered[1] if numbered is not None else name


def show_threads(answers: ThreadAnswers, naming: Naming, *, command: str, color: bool) -> str:
    """Return how many answered, a tree for each name of threads, and a line for each group without a stack."""
    names = list(dict.fromkeys(group.thread or "" for group in answers.stacks))
    threads = f"{len(names)} {'thread' if len(names) == 1 else 'different threads'}"
    lines = [f"{command}: {answers.answered} of {counted(answers.asked)} answered, {threads}"]
    for name in names:
        groups = [group for group in answers.stacks if group.thread == name]
        ranks = {rank.key: rank for group in groups for rank in group.ranks}
        somewhere = f", on {show_ranks(list(ranks.values()), naming)} alone" if len(ranks) < answers.answered else ""
        lines += [f"thread {printable(name, 200)}{somewhere}", *draw(groups, naming, color=color)]
    return "".join(f"{line}\n" for line in [*lines, *show_others(answers.others, naming)])


def threads_document(answers: ThreadAnswers, naming: Naming) -> dict[str, object]:
    """Return what becomes the JSON document; a rank has a group for each of its threads."""
    document = stacks_document(answers.stacks, answers.others, naming)
    return {**document, "asked": answers.asked, "answered": answers.answered}


def _of_thread(answer: RankAnswer, thread: ThreadStack) -> RankAnswer:
    """Return the answer as if for one thread: beside the one that stands in a stop the others run."""
    text = answer.text if thread.halted or not answer.threads or answer.kind is not Kind.VALUE else "running"
    return answer.replace(text=text, frames=thread.frames)


def _is_asked_one(thread: ThreadStack, answer: RankAnswer) -> bool:
    return thread.halted or (thread.name == MAIN and not any(other.halted for other in answer.threads))


def _group(kind: str, name: str, frames: tuple[Place, ...], members: Sequence[tuple[RankInfo, str, Age]]) -> StackGroup:
    of_rank: defaultdict[str, list[tuple[RankInfo, str, Age]]] = defaultdict(list)
    for member in sorted(members, key=lambda member: order(member[0])):
        of_rank[member[0].key].append(member)
    firsts = [some[0] for some in of_rank.values()]
    return StackGroup(
        id="",
        kind=kind,
        ranks=tuple(rank for rank, _, _ in firsts),
        text="",
        frames=frames,
        states=tuple(
            some[0][1] if len(some) == 1 else f"{some[0][1]}, {len(some)} threads" for some in of_rank.values()
        ),
        ages=tuple(age for _, _, age in firsts),
        thread=name,
    )
