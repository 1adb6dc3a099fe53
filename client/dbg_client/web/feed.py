"""What all pages are told: the ranks, the time line, verdicts; each text is made once (publish and subscribe)."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from dbg_client.core.directory import LISTS
from dbg_client.core.link import Down, Event, Up
from dbg_client.core.switchboard import Switchboard
from dbg_client.views.list import show_place, without_limit
from dbg_client.web import messages
from dbg_client.web.outbox import Outbox
from dbg_client.web.rows import Rows
from dbg_command.targets import Target
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import CRASH, RankInfo, RankState, describe_exit, rank_order

ROWS_PER_PAGE = 500
"""Rows in one text, at most: a browser reads a page of them within some milliseconds."""

ROUND_SECONDS = 0.1
"""Seconds in which changes are gathered (a debounce): several changes of a rank are one row, and nobody sees more."""

REST_OF_ROUND = 10
"""Times that a round has taken before the next one begins: of 10,000 ranks one takes a tenth of a second."""

MAX_EVENTS = 500
"""Events that are kept for pages that come; older ones are forgotten."""

MAX_TEXT = 500
"""Characters of an event's text."""

Pair = tuple[RankInfo | None, RankInfo]
"""A rank before and after a change."""

_AWAY = {RankState.UNRESPONSIVE: "does not answer", RankState.LOST: "its connection is lost"}


class TimeLine:
    """The last events, numbered; those that are returned are new."""

    def __init__(self) -> None:
        self.events: deque[messages.Event] = deque(maxlen=MAX_EVENTS)
        self._number = 0

    def note(self, kind: str, text: str, at: float, ranks: Sequence[RankInfo] = (), who: str = "") -> messages.Event:
        """Note something about some ranks of a job, or about none."""
        ranks = sorted(ranks, key=rank_order)
        first = ranks[0] if ranks else None
        self._number += 1
        event = messages.Event(
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

    def changed(self, pairs: Iterable[Pair], at: float) -> list[messages.Event]:
        """Note what has changed about ranks."""
        alike: defaultdict[tuple[str, str, str, str], list[RankInfo]] = defaultdict(list)
        for before, now in pairs:
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


class Feed:
    """The news of one target for any number of pages; a watcher of the broker's link. Belongs to one event loop."""

    def __init__(self, switchboard: Switchboard, target: Target | None, hello: Callable[[], messages.Hello]) -> None:
        self.time_line = TimeLine()
        self.rows = Rows(target)
        self.pages: set[Outbox] = set()
        self._hello = hello
        self._switchboard = switchboard
        self._round: asyncio.TimerHandle | None = None
        self._rested_at = 0.0
        self._link = messages.Link(up=True, reason="")
        self.opened = asyncio.Event()
        """Set when a page has come."""
        self._verdicts: dict[str, messages.Verdict] = {}
        self.rows.choose(switchboard.directory.ranks)
        self._job = self.rows.job

    # ----------------------------------------------------------------------------------------------------- pages

    def join(self, page: Outbox) -> None:
        """Tell a page all there is, and what happens from now on."""
        page.say(self._hello(), self._link, self._job)
        *earlier, last = _paged(self.rows.all) or [()]
        page.say(*(messages.Ranks(rows=rows, last=False) for rows in earlier), messages.Ranks(rows=last, last=True))
        page.say(*self.time_line.events, *self._verdicts.values())
        self.pages.add(page)
        self.opened.set()

    def leave(self, page: Outbox) -> None:
        """Tell a page nothing more."""
        self.pages.discard(page)

    def say(self, item: messages.ToPage) -> None:
        """Tell all pages."""
        text = messages.encode(item)
        for page in self.pages:
            page.put(text)

    def note(self, kind: str, text: str, ranks: Sequence[RankInfo] = (), who: str = "") -> None:
        """Put something on the time line."""
        self.say(self.time_line.note(kind, text, time.time(), ranks, who))

    def is_judged(self, job: str) -> bool:
        """Return whether there is a verdict on a job."""
        return job in self._verdicts

    def judge(self, verdict: messages.Verdict) -> None:
        """Tell of a verdict, or that a job goes on again."""
        if not verdict.verdicts:
            if self._verdicts.pop(verdict.job, None) is None:
                return
        else:
            self._verdicts[verdict.job] = verdict
        self.say(verdict)

    # ------------------------------------------------------------------------------------------------ the broker

    async def receive(self, event: Event) -> None:
        """Take what the broker says; the directory knows it already."""
        if isinstance(event, (Up, Down)):
            self._link_changed(event)
        elif isinstance(event, LISTS) and self._switchboard.directory.complete and self._round is None:
            loop = asyncio.get_running_loop()
            self._round = loop.call_at(max(loop.time() + ROUND_SECONDS, self._rested_at), self._make_round)

    def close(self) -> None:
        """Make no more rounds."""
        if self._round is not None:
            self._round.cancel()

    def _link_changed(self, event: Up | Down) -> None:
        reason = "" if isinstance(event, Up) else printable(event.reason)
        link = messages.Link(up=isinstance(event, Up), reason=reason)
        if link.up != self._link.up:
            self.note("broker", "the broker is back" if link.up else f"the broker is gone ({link.reason})")
        if link != self._link:
            self._link = link
            self.say(link)

    def _make_round(self) -> None:
        """Tell the pages what has changed since the last round."""
        self._round, loop = None, asyncio.get_running_loop()
        began = loop.time()
        changes = self.rows.choose(self._switchboard.directory.ranks)
        if self.rows.job != self._job:
            self._job = self.rows.job
            self.say(self._job)
        for rows in _paged(changes.rows):
            self.say(messages.Change(rows=rows))
        if changes.gone:
            self.say(messages.Change(rows=(), gone=changes.gone))
        for event in self.time_line.changed(changes.pairs, time.time()):
            self.say(event)
        ended = loop.time()
        self._rested_at = ended + REST_OF_ROUND * (ended - began)


def _paged(rows: tuple[msgspec.Raw, ...]) -> list[tuple[msgspec.Raw, ...]]:
    return [rows[start : start + ROWS_PER_PAGE] for start in range(0, len(rows), ROWS_PER_PAGE)]
