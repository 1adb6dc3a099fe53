"""The time line: what happens to ranks, and who does it, as events; what happens to many at once is one. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from dbg_client.views.list import show_place, without_limit
from dbg_client.web.messages import Event
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import CRASH, RankInfo, RankState, describe_exit, rank_order

MAX_EVENTS = 500
"""Events that are kept for pages that come; older ones are forgotten."""

MAX_TEXT = 500
"""Characters of an event's text."""

Pair = tuple[RankInfo | None, RankInfo | None]
"""A rank before and after a change."""

_AWAY = {RankState.UNRESPONSIVE: "does not answer", RankState.LOST: "its connection is lost"}


class TimeLine:
    """The last events, numbered; those that are returned are new."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._number = 0

    def note(self, kind: str, text: str, at: float, ranks: Sequence[RankInfo] = (), who: str = "") -> Event:
        """Note something about some ranks of a job, or about none."""
        ranks = sorted(ranks, key=rank_order)
        first = ranks[0] if ranks else None
        self._number += 1
        event = Event(
            number=self._number,
            at=at,
            kind=kind,
            job=first.job if first is not None else "",
            key=first.key if first is not None else "",
            rank=first.address if first is not None else "",
            ranks=format_ranks({rank.rank for rank in ranks}),
            count=len(ranks),
            text=printable(text, MAX_TEXT),
            who=printable(who, MAX_TEXT),
        )
        self.events.append(event)
        return event

    def changed(self, pairs: Iterable[Pair], at: float) -> list[Event]:
        """Note what has changed about ranks."""
        alike: defaultdict[tuple[str, str, str, str], list[RankInfo]] = defaultdict(list)
        for before, now in pairs:
            if now is not None:
                for kind, text, who in _news_of(before, now):
                    alike[now.job, kind, text, who].append(now)
        return [self.note(kind, text, at, ranks, who) for (_, kind, text, who), ranks in alike.items()]


def _news_of(before: RankInfo | None, now: RankInfo) -> Iterable[tuple[str, str, str]]:
    """Yield the kind of each event, its text, and who has done it."""
    if before is None:
        yield "came", "connected", ""
    was = before.state if before is not None else RankState.RUNNING
    if now.state is RankState.STOPPED:
        if before is None or was is not RankState.STOPPED or before.occasion != now.occasion:
            yield ("crash" if now.reason == CRASH else "stop"), _stop_of(now), ""
    elif now.state is not was:
        yield _state_of(was, now)
    driver = before.driver if before is not None else None
    if now.driver != driver:
        who = now.driver or driver or ""
        yield "driver", "has the keyboard" if now.driver else "has left the keyboard", who
    elif before is not None and now.watchers > before.watchers:
        yield "watcher", f"{now.watchers} look on", ""


def _state_of(was: RankState, now: RankInfo) -> tuple[str, str, str]:
    if now.state is RankState.EXITED:
        return "exit", describe_exit(now), ""
    if now.state is RankState.HELD:
        return "held", "held: it waits for other ranks", ""
    if now.state in _AWAY:
        return "silent", _AWAY[now.state], ""
    return ("back", "answers again", "") if was in _AWAY else ("goes_on", "goes on", "")


def _stop_of(rank: RankInfo) -> str:
    where = f" at {place}" if (place := show_place(rank.where)) else ""
    detail = f": {said}" if (said := without_limit(rank)) else ""
    return f"stopped ({rank.reason}){where}{detail}"
