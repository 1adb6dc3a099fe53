"""Ranks whose agents are older than this broker's wishes, of which the log tells once."""

from __future__ import annotations

import logging

from dbg_broker.hub.state import Hub
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.version import MINOR_OF_EVENTS

logger = logging.getLogger("dbg_broker")


def note(hub: Hub, rank: RankRecord) -> None:
    """Warn, once in the life of a broker, that ``--max-lease`` does not hold for a rank; stock sessions have none."""
    if hub.max_lease is None or hub.knows_older_agents or rank.prefix or rank.said.minor >= MINOR_OF_EVENTS:
        return
    hub.knows_older_agents = True
    logger.warning(
        "--max-lease does not hold for %s of job %s, nor for other ranks of its release: dbg-broker %s there does not "
        "know of it",
        rank.address,
        rank.said.job,
        rank.said.release,
    )
