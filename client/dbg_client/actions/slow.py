"""Show which ranks slow a job down that does not hang."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_client.actions.many import ShownAnswers
from dbg_client.actions.output import in_format
from dbg_client.actions.streams import columns_of_stdout
from dbg_client.core.asking import Asker
from dbg_client.hang.slow.lateness import exit_status
from dbg_client.questions.slow import find_stragglers
from dbg_client.words.settings import Slow
from dbg_wire.records.ranks import RankInfo


async def show_slow(
    settings: Slow, asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo]
) -> ShownAnswers:
    """Return who slows the runs of the chosen ranks down. Raises DbgError if the broker fails."""
    found = await find_stragglers(asker, chosen, known, settings.seconds)
    output = settings.output
    text = in_format(output, found.document, lambda: found.shown(color=output.color, columns=columns_of_stdout()))
    return ShownAnswers(text, exit_status(found.verdicts))
