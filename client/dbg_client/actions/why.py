"""Show why a job does not go on, and the collectives of its process groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from dbg_client.actions.many import PARTIAL, ShownAnswers, remember
from dbg_client.actions.output import in_format
from dbg_client.actions.streams import columns_of_stdout
from dbg_client.core.asking import Asker
from dbg_client.core.patience import Show, show_nobody
from dbg_client.hang.collectives_table import collectives_document, show_collectives
from dbg_client.hang.explain import Case, Explanation
from dbg_client.hang.show import show_verdicts, verdicts_document
from dbg_client.hang.verdict import Verdict, exit_status
from dbg_client.questions.cause import ask_collectives, find_case, hangs_among
from dbg_client.views.stacks import MISSING, missing_from_collectives
from dbg_client.words.settings import Collectives, Why
from dbg_wire.errors import printable
from dbg_wire.messages import Hang, Kind, Message
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import fitted
from dbg_wire.targets.rank_set import format_ranks


def tell_of_hang(
    tell: Callable[[Message], None],
    verdicts: Sequence[Verdict],
    known: Sequence[RankInfo] = (),
    *,
    stands: bool = False,
) -> None:
    """Send, by ``tell``, the worst verdict on each job that hangs; with ``stands`` it is known that no rank moves."""
    for verdict in hangs_among(verdicts, known, stands=stands):
        tell(
            fitted(
                Hang,
                job=verdict.job,
                kind=verdict.kind.value,
                sentence=printable(verdict.sentence, 500),
                ranks=format_ranks(verdict.ranks),
            )
        )


async def judge(
    asker: Asker,
    chosen: Sequence[RankInfo],
    known: Sequence[RankInfo],
    *,
    show: Show = show_nobody,
    stands: bool = False,
) -> tuple[Case, Explanation]:
    """Return the evidence and the verdicts on the runs of the chosen ranks; remember who is missing.

    The broker is told of a hang; with ``stands`` it is known that no rank moves, whatever the reason.

    Raises DbgError if the broker fails.
    """
    case, found = await find_case(asker, chosen, known, show=show)
    tell_of_hang(asker.send, found.verdicts, known, stands=stands)
    await asyncio.to_thread(remember, {MISSING: tuple(rank.key for rank in found.missing)})
    return case, found


async def show_why(
    settings: Why, asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo], *, show: Show
) -> ShownAnswers:
    """Return the verdicts on the runs of the chosen ranks, as far as they are about these; remember who is missing.

    The broker is told of a hang. Raises DbgError if the broker fails.
    """
    _, found = await judge(asker, chosen, known, show=show)
    groups = {MISSING: tuple(rank.key for rank in found.missing)}
    return ShownAnswers(explained(settings, found), exit_status(found.verdicts), groups=groups)


def explained(settings: Why, found: Explanation) -> str:
    """Return verdicts as the user wants them."""
    output = settings.output
    return in_format(
        output,
        lambda: verdicts_document(found),
        lambda: show_verdicts(found.verdicts, color=output.color, columns=columns_of_stdout()),
    )


async def show_groups_of(
    settings: Collectives, asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo]
) -> ShownAnswers:
    """Return a table of the process groups of these ranks' runs; remember who has not come to a collective.

    Raises DbgError if the broker fails.
    """
    matched, answers = await ask_collectives(asker, chosen, known)
    absent = missing_from_collectives(matched)
    groups = {MISSING: tuple(rank.key for rank in absent.ranks) if absent is not None else ()}
    await asyncio.to_thread(remember, groups)
    output = settings.output
    text = in_format(
        output, lambda: collectives_document(matched), lambda: show_collectives(matched, color=output.color)
    )
    told = any(one.tells_collectives for each in matched for one in each.roster.values())
    silent = any(answer.kind is Kind.SILENT for answer in answers)
    return ShownAnswers(text, PARTIAL if silent or not told else 0, groups=groups)
