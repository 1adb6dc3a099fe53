"""The verbs that ask ranks, the same from a shell and in a session: which question each is, and what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dbg_client.actions.many import ShownAnswers, ask_question, run_beside, show_stacks_of
from dbg_client.actions.output import in_format
from dbg_client.core.asking import Asker
from dbg_client.core.patience import Show, show_nobody
from dbg_client.core.roll_call import RollCall
from dbg_client.questions.verbs import list_ranks
from dbg_client.views.list import list_document, show_plain
from dbg_client.views.missing import missing_documents
from dbg_client.words.settings import Collectives, Eval, Exec, Format, ListRanks, PdbCommand, Slow, Where, Why
from dbg_wire.records.ranks import RankInfo
from dbg_wire.targets.grammar import Target

Question: TypeAlias = "Where | Why | Slow | Collectives | Eval | PdbCommand | Exec"

QUESTIONS = (Where, Why, Slow, Collectives, Eval, PdbCommand, Exec)


async def ask(
    settings: Question,
    asker: Asker,
    ranks: Sequence[RankInfo],
    known: Sequence[RankInfo],
    *,
    calls: Sequence[RollCall] = (),
    show: Show = show_nobody,
) -> ShownAnswers:
    """Ask these of the known ranks, and return the answer.

    ``calls`` tell of the ranks that should be among them and are missing, ``show`` takes what an answer waits for.

    Raises BadInput for a command that is not for sets, DbgError if all ranks have exited or the broker fails.
    """
    if isinstance(settings, (Eval, PdbCommand)):
        return await ask_question(settings, asker, ranks, calls=calls)
    if isinstance(settings, Where):
        return await show_stacks_of(settings, asker, ranks, calls=calls, known=known)
    if isinstance(settings, Slow):
        from dbg_client.actions.slow import show_slow  # hardly any verb judges samples

        return await show_slow(settings, asker, ranks, known)
    if isinstance(settings, (Why, Collectives)):
        # What explains a hang is a fifth of all that a question needs.
        from dbg_client.actions.why import show_groups_of, show_why

        if isinstance(settings, Why):
            return await show_why(settings, asker, ranks, known, show=show)
        return await show_groups_of(settings, asker, ranks, known)
    return await run_beside(settings, asker, ranks)


def show_list(
    settings: ListRanks,
    known: Sequence[RankInfo],
    target: Target | None,
    found: Sequence[RankInfo],
    *,
    nobody: str = "",
    hint: str = "",
) -> ShownAnswers:
    """Return the list of the ranks that a target has found, or of all.

    A table without ranks is ``nobody``, and has a ``hint``.
    """
    output = settings.output
    ranks = list_ranks(known, target, found, with_exited=settings.all)
    if output.format is Format.PLAIN:
        return ShownAnswers(show_plain(ranks.shown, known))
    text = in_format(
        output,
        lambda: list_document(ranks.shown, missing_documents(ranks.absent)),
        lambda: ranks.table(color=output.color, fold=not settings.all_rows, nobody=nobody),
    )
    return ShownAnswers(text, hint="" if ranks.shown or output.format is Format.JSON else hint)
