"""Show which ranks slow a job down that does not hang."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from dbg_client.actions.many import ShownAnswers
from dbg_client.actions.streams import terminal_size
from dbg_client.core.asking import Asker
from dbg_client.hang.slow.verdict import exit_status
from dbg_client.questions.slow import find_stragglers
from dbg_client.words.settings import Format, Slow
from dbg_wire.records.ranks import RankInfo


async def show_slow(
    settings: Slow, asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo]
) -> ShownAnswers:
    """Return who slows the runs of the chosen ranks down. Raises DbgError if the broker fails."""
    found = await find_stragglers(asker, chosen, known, settings.seconds)
    if settings.output.format is Format.JSON:
        text = json.dumps(found.document()) + "\n"
    else:
        columns = terminal_size()[1] if sys.stdout.isatty() else None
        text = found.shown(color=settings.output.color, columns=columns)
    return ShownAnswers(text, exit_status(found.verdicts))
