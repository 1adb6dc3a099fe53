"""Show why a job does not go on, and the collectives of its process groups."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from dbg_client.actions.many import PARTIAL, ShownAnswers, remember
from dbg_client.actions.tell_of_hang import tell_of_hang
from dbg_client.core.asking import Asker
from dbg_client.core.collective_matching import match_collectives
from dbg_client.core.rank_evidence import read_evidence
from dbg_client.core.waiting_line import Show, show_nobody
from dbg_client.hang.collectives_table import collectives_document, show_collectives
from dbg_client.hang.explain import show_verdicts, verdicts_document
from dbg_client.hang.verdict import exit_status
from dbg_client.questions.cause import look_for_cause, ranks_of_runs
from dbg_client.streams import terminal_size
from dbg_client.views.stacks import MISSING, missing_from_collectives
from dbg_client.words.settings import CommandSettings, Format
from dbg_wire.messages import Action, Kind, Look
from dbg_wire.records.ranks import RankInfo


async def show_why(
    settings: CommandSettings,
    asker: Asker,
    chosen: Sequence[RankInfo],
    known: Sequence[RankInfo],
    *,
    show: Show = show_nobody,
    stands: bool = False,
) -> ShownAnswers:
    """Return the verdicts on the runs of the chosen ranks, as far as they are about these; remember who is missing.

    The broker is told of a hang; with ``stands`` it is known that no rank moves, whatever the reason.

    Raises DbgError if the broker fails.
    """
    found = await look_for_cause(asker, chosen, known, show=show)
    tell_of_hang(asker.tell, found.verdicts, known, stands=stands)
    groups = {MISSING: tuple(rank.key for rank in found.missing)}
    await asyncio.to_thread(remember, groups)
    if settings.format is Format.JSON:
        text = json.dumps(verdicts_document(found)) + "\n"
    else:
        columns = terminal_size()[1] if sys.stdout.isatty() else None
        text = show_verdicts(found.verdicts, color=settings.color, columns=columns)
    return ShownAnswers(text, exit_status(found.verdicts), groups=groups)


async def show_groups_of(
    settings: CommandSettings, asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo]
) -> ShownAnswers:
    """Return a table of the process groups of these ranks' runs; remember who has not come to a collective.

    Raises DbgError if the broker fails.
    """
    ranks = ranks_of_runs(chosen, known)
    answers = await asker.ask(Action.WHERE, ranks, look=Look.COLLECTIVES)
    matched = match_collectives(read_evidence(ranks, answers))
    absent = missing_from_collectives(matched)
    groups = {MISSING: tuple(rank.key for rank in absent.ranks) if absent is not None else ()}
    await asyncio.to_thread(remember, groups)
    if settings.format is Format.JSON:
        text = json.dumps(collectives_document(matched)) + "\n"
    else:
        text = show_collectives(matched, color=settings.color)
    told = any(one.tells_collectives for each in matched for one in each.roster.values())
    silent = any(answer.kind is Kind.SILENT for answer in answers)
    return ShownAnswers(text, PARTIAL if silent or not told else 0, groups=groups)
