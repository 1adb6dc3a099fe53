"""Ask ranks for a value or a command, and group what they answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_client.core.roll_call import RollCall
from dbg_client.questions.differences import with_differences
from dbg_client.views.groups import AnswerGroup, Said, group_answers
from dbg_client.views.missing import MissingInAnswer, missing_in_answer
from dbg_client.views.naming import Naming
from dbg_wire.messages import Action
from dbg_wire.records.ranks import RankInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAnswer:
    """What ranks have answered to ``command``; equal answers are one group, and ``missing`` says who was not asked."""

    command: str
    said: tuple[Said, ...]
    groups: tuple[AnswerGroup, ...]
    naming: Naming
    missing: MissingInAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueWishes:
    """How ranks evaluate, and when two of their values count as equal; the fields are those of the terminal's options.

    ``tolerance`` is the relative difference up to which floats are equal, None for none.
    """

    frame: str = ""
    live: bool = False
    stats: bool = False
    exact: bool = False
    tolerance: float | None = None


USUAL = ValueWishes()


async def ask_values(
    asker: Asker,
    ranks: Sequence[RankInfo],
    action: Action,
    command: str,
    *,
    wishes: ValueWishes = USUAL,
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
