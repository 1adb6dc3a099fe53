"""All brokers of a site as one link. The client connects to every broker, because brokers forward nothing."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from dbg_client.core.link import BrokerLink, Down, Event, SeatDown, SeatUp, Up
from dbg_dial.endpoint import Endpoint, Route
from dbg_dial.find import Opening
from dbg_wire.codec import Input
from dbg_wire.errors import BrokerUnreachable
from dbg_wire.messages import (
    AnswerBody,
    Answers,
    Attach,
    Change,
    Detach,
    Gone,
    Hang,
    Kind,
    Logged,
    Message,
    Question,
    Refusal,
    SameAnswer,
    Snapshot,
    Welcome,
    Withdraw,
    body_of,
)
from dbg_wire.records.ranks import RankInfo, RankState

AWAY_SECONDS = 10.0
"""Seconds after which an unreachable broker is removed, unless another broker still names it.

Its ranks move to other brokers within half of that time.
"""

WAITING = 4
"""Maximum events of all brokers that are queued for the program. With a full queue, reading pauses."""

MOVED = "its rank is at another broker now"
"""Reason for the loss of a seat whose broker is still connected."""

NOT_ASKED = "its broker does not answer"
"""Answer for a rank whose broker is silent or unreachable: the question did not reach the rank, or its answer can't
come back."""


@dataclass(eq=False)
class _Broker:
    """Broker; ``name`` is its address for other brokers. ``away_since`` is when it became unreachable, or None."""

    name: str
    link: BrokerLink
    away_since: float | None = None
    reading: asyncio.Task[None] | None = None


class Brokers:
    """Link of a program to the broker, or to all brokers of its site.

    Belongs to one event loop; one task reads :meth:`next`. The first broker is found and dialled like a single broker.
    Each other broker that a welcome lists gets its own link. These links are dropped when no broker is connected. A
    message about a rank is sent to the broker of that rank.
    """

    def __init__(self, find: Callable[[Opening], Route], name: str, seconds: float, *, logs: bool = False) -> None:
        self._name, self._seconds, self._logs = name, seconds, logs
        self._first = _Broker("", BrokerLink(find, name, seconds, logs=logs, taken=lambda: self._taken(self._first)))
        self._all = [self._first]
        self._members: dict[str, Endpoint] = {}
        self._list = MergedList[_Broker]()
        self._is_listed = False
        """Whether the program has received the whole list, and now receives changes."""
        self._asked: dict[int, dict[_Broker, tuple[str, ...]]] = {}
        """For each open question, the brokers that have not finished it, each with the ranks it was asked about."""
        self._rank: str | None = None
        """Rank of this program's current or requested seat."""
        self._seat = self._first
        """Broker that was asked for the seat."""
        self._is_seat_up = True
        """Whether the last report to the program said that the seat's broker is connected."""
        self._ready = deque[Event]()
        self._events: asyncio.Queue[tuple[_Broker | None, Event | Exception]] = asyncio.Queue()
        self._room = asyncio.Semaphore(WAITING)
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Address of the broker as last found; if there are several, of a connected one."""
        return self._any.link.url

    @property
    def is_up(self) -> bool:
        """Whether there is a connection to any broker."""
        return self._any.link.is_up

    @property
    def silent_since(self) -> float | None:
        """Time of the last answered ping if the seat's broker is connected but silent, otherwise None."""
        return self._seat.link.silent_since

    @property
    def welcome(self) -> Welcome | None:
        """Last welcome of a connected broker; None while no broker is connected."""
        return self._any.link.welcome

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Addresses of brokers that can't be reached although other brokers list them."""
        away = (broker.name for broker in self._all if broker.away_since is not None)
        return tuple(name for name in away if self.is_up and name in self._members)

    @property
    def _any(self) -> _Broker:
        return next((broker for broker in self._all if broker.link.is_up), self._first)

    async def open(self) -> None:
        """Dial. Raises the errors of :meth:`.link.BrokerLink.open`."""
        await self._first.link.open()
        self._list.start(self._first)
        self._follow_members()

    async def next(self) -> Event:
        """Return the next event. While no broker is connected, dial with growing pauses. Safe to cancel."""
        while not self._ready:
            if self._first.reading is None:
                self._take(self._first, await self._first.link.next())
                continue
            broker, event = await self._events.get()
            if isinstance(event, Exception):
                raise event
            if broker is None:
                return event
            self._room.release()
            if broker in self._all:
                self._take(broker, event)
        return self._ready.popleft()

    async def close(self) -> None:
        """Send all queued messages and close. Never raises."""
        for broker in self._all:
            self._stop_reading(broker)
        await asyncio.gather(*self._closing, self._first.link.close(), return_exceptions=True)

    # --------------------------------------------------------------------------------------------------------- sending

    def send(self, item: Message | Input) -> bool:
        """Queue an item for the broker concerned. Return False, without effect, while that broker is away."""
        if isinstance(item, Question):
            return self._ask(item)
        if isinstance(item, Withdraw):
            return self._withdraw(item)
        if isinstance(item, Hang):
            return self._any.link.send(item)
        if isinstance(item, Attach):
            self._sit_at(self._list.owner(item.key) or self._any)
            self._rank, self._is_seat_up = item.key, self._seat.link.send(item)
            return self._is_seat_up
        if isinstance(item, Detach):
            self._rank = None
        return self._seat.link.send(item)

    def _sit_at(self, broker: _Broker) -> None:
        if broker is not self._seat and self._rank is not None:
            self._seat.link.send(Detach())
        self._seat = broker

    def _ask(self, question: Question) -> bool:
        """Ask the brokers of these ranks. For the ranks of a silent or absent broker, answer at once."""
        if len(self._all) == 1:
            return self._first.link.send(question)
        keys: defaultdict[_Broker, list[str]] = defaultdict(list)
        for key in question.keys:
            keys[self._list.owner(key) or self._any].append(key)
        self._asked[question.request] = {broker: tuple(part) for broker, part in keys.items()}
        for broker, part in keys.items():
            is_silent = broker.link.silent_since is not None
            if is_silent or not broker.link.send(question.replace(keys=tuple(part))):
                self._answer_for(broker, question.request)
        return True

    def _withdraw(self, message: Withdraw) -> bool:
        """Withdraw a question from the brokers that have not finished it, without waiting for a silent broker."""
        if message.request not in self._asked:
            return self._any.link.send(message)
        for broker in tuple(self._asked[message.request]):
            if broker.link.silent_since is not None or not broker.link.send(message):
                self._answer_for(broker, message.request)
        return True

    def _answer_for(self, broker: _Broker, request: int) -> None:
        """Answer in place of a broker that does not answer. Earlier answers of its ranks take precedence."""
        keys = self._asked[request].get(broker, ())
        silent = SameAnswer(keys=keys, kind=Kind.SILENT, body=body_of(AnswerBody(text=NOT_ASKED)))
        answers = self._part(broker, Answers(request=request, answers=(silent,), last=True))
        self._events.put_nowait((None, answers))

    # ------------------------------------------------------------------------------------------------------- receiving

    async def _read(self, broker: _Broker) -> None:
        try:
            while True:
                event = await broker.link.next()
                await self._room.acquire()
                self._events.put_nowait((broker, event))
        except Exception as error:
            self._events.put_nowait((None, error))
        finally:
            await broker.link.close()

    def _stop_reading(self, broker: _Broker) -> None:
        if broker.reading is not None:
            self._closing.add(broker.reading)
            broker.reading.add_done_callback(self._closing.discard)
            broker.reading.cancel()

    def _take(self, broker: _Broker, event: Event) -> None:
        if isinstance(event, Up):
            self._came(broker)
        elif isinstance(event, Down):
            self._went(broker, event)
        elif isinstance(event, (Snapshot, Change, Gone)):
            if self._list.take(broker, event):
                self._publish_list(event)
        elif isinstance(event, Answers) or (isinstance(event, Refusal) and event.request is not None):
            self._ready.append(self._part(broker, event))
        elif isinstance(event, Welcome):
            self._follow_members()
            self._ready.append(event)
        elif self._rank is None or broker is self._seat or isinstance(event, Logged):
            # All other messages are about a seat. If the program's present seat is not at this broker, the message is
            # about an earlier seat, and is ignored.
            self._ready.append(event)

    def _came(self, broker: _Broker) -> None:
        is_only_one = all(other is broker or not other.link.is_up for other in self._all)
        broker.away_since = None
        self._list.start(broker)
        self._follow_members()
        if is_only_one:
            self._ready.append(Up())

    def _went(self, broker: _Broker, event: Down) -> None:
        if broker.away_since is None:
            broker.away_since = asyncio.get_running_loop().time()
        self._list.cut_off(broker)
        self._answer_all(broker)
        if not self.is_up:
            self._all_gone(event)
            return
        self._follow_members()
        if broker is self._seat and self._rank is not None and self._is_seat_up:
            self._is_seat_up = False
            self._ready.append(SeatDown(event.reason))
        if not self._is_listed:
            self._publish_list(self._list.whole())

    def _answer_all(self, broker: _Broker) -> None:
        """Answer all open questions in place of this broker, because it will not answer them."""
        for request in [request for request, parts in self._asked.items() if broker in parts]:
            self._answer_for(broker, request)

    def _all_gone(self, event: Down) -> None:
        """Continue with a single link, which looks for any broker."""
        self._asked.clear()
        for broker in self._all[1:]:
            self._forget(broker)
        self._is_listed = False
        self._ready.append(event)

    def _part(self, broker: _Broker, event: Answers | Refusal) -> Answers | Refusal:
        """Turn a broker's message about its part of a question into a message about the whole question.

        Answers keep their ``last`` flag only if no other broker still has to answer. A refusal by one broker ends the
        question at all brokers.
        """
        parts = self._asked.get(event.request or 0)
        if parts is None:
            return event
        if isinstance(event, Answers):
            if event.last:
                parts.pop(broker, None)
            if parts:
                return event.replace(last=False)
        else:
            for other in parts.keys() - {broker}:
                other.link.send(Withdraw(request=event.request or 0))
        self._asked.pop(event.request or 0)
        return event

    def _publish_list(self, message: Snapshot | Change | Gone) -> None:
        """Report a change of the list to the program. A move of the seat's rank to another broker is reported first."""
        if not self._is_listed and self._list.is_awaited:
            return
        if isinstance(message, Snapshot) or not self._is_listed:
            self._list.drop(lambda _, owner: owner not in self._all)
            message, self._is_listed = self._list.whole(), True
        if self._rank is not None:
            # If no broker lists the rank, the seat stays at its broker. If that broker was removed, ask another one,
            # which will report that the rank does not exist.
            fallback = self._seat if self._seat in self._all else self._any
            self._follow_seat(self._list.owner(self._rank) or fallback)
        self._ready.append(message)

    def _follow_seat(self, owner: _Broker) -> None:
        if not owner.link.is_up or self._list.awaits(owner):
            return
        if owner is not self._seat and self._is_seat_up:
            self._is_seat_up = False
            self._ready.append(SeatDown(MOVED))
        if not self._is_seat_up:
            self._sit_at(owner)
            self._is_seat_up = True
            self._ready.append(SeatUp())

    # ---------------------------------------------------------------------------------------------------------- members

    def _follow_members(self) -> None:
        """Dial newly named brokers. Remove brokers that no broker names any more and that have long been away."""
        first, links = self._first, [broker.link for broker in self._all if broker.link.is_up]
        if first.link.is_up:
            first.name = first.link.brokers[0].url if first.link.brokers else first.link.url
            for broker in self._all[1:]:
                if broker.name == first.name:
                    self._forget(broker)
        self._members = {one.url: one for link in links for one in link.brokers}
        for name in self._members.keys() - {broker.name for broker in self._all}:
            self._add(name)
        forgotten = asyncio.get_running_loop().time() - AWAY_SECONDS
        for broker in tuple(self._all):
            if broker.away_since is not None and broker.away_since < forgotten and broker.name not in self._members:
                self._forget(broker)
                if self._list.drop(lambda _, owner, broker=broker: owner is broker):  # type: ignore[misc]
                    self._publish_list(self._list.whole())

    def _add(self, name: str) -> None:
        def find(opening: Opening) -> Route:
            found = self._first.link.found
            if found is None:
                raise BrokerUnreachable(name, "no broker is known")
            return replace(found, endpoint=self._members.get(name, endpoint), others=())

        endpoint = self._members[name]
        # Half of the timeout: an unreachable broker must be skipped before the wait for the lists of all brokers ends.
        link = BrokerLink(find, self._name, self._seconds / 2, logs=self._logs, taken=lambda: self._taken(added))
        added = _Broker(name, link)
        self._all.append(added)
        self._list.start(added)
        for broker in (self._first, added):
            broker.reading = broker.reading or asyncio.create_task(self._read(broker))

    def _forget(self, broker: _Broker) -> None:
        if broker is not self._first:
            self._all.remove(broker)
            self._list.cut_off(broker)
            self._answer_all(broker)
            self._stop_reading(broker)

    def _taken(self, broker: _Broker) -> set[str]:
        """Return the addresses of all other brokers. Their own links dial them, so this broker's link must not."""
        return {other.name for other in self._all if other is not broker}


B = TypeVar("B")


class MergedList(Generic[B]):
    """Merges the lists of all brokers into one list.

    A broker lists only its own ranks. A rank that moves to another broker is listed by both for a while; the newer
    record takes precedence. The ranks of an absent broker stay unchanged until another broker lists them, or until
    :meth:`drop`.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, tuple[B, RankInfo]] = {}
        self._pages: dict[B, dict[str, RankInfo]] = {}
        """Parts received so far of each expected snapshot."""

    @property
    def is_awaited(self) -> bool:
        """Whether a snapshot of any broker is expected."""
        return bool(self._pages)

    def awaits(self, broker: B) -> bool:
        """Return True if a snapshot of this broker is expected."""
        return broker in self._pages

    def start(self, broker: B) -> None:
        """Expect a snapshot, which replaces the earlier list of the broker."""
        self._pages[broker] = {}

    def cut_off(self, broker: B) -> None:
        """Stop expecting a snapshot of a broker that is away."""
        self._pages.pop(broker, None)

    def owner(self, key: str) -> B | None:
        """Return the current broker of a rank, or else the most recent one; None for an unknown rank."""
        found = self._ranks.get(key)
        return None if found is None else found[0]

    def whole(self) -> Snapshot:
        """Return the list of all ranks."""
        return Snapshot(ranks=tuple(rank for _, rank in self._ranks.values()), last=True)

    def take(self, broker: B, message: Snapshot | Change | Gone) -> bool:
        """Process a message of a broker. Return True if the merged list may have changed."""
        pages = self._pages.get(broker, {})
        if isinstance(message, Snapshot):
            pages.update((rank.key, rank) for rank in message.ranks)
            if message.last:
                self.cut_off(broker)
                self.drop(lambda key, owner: owner is broker and key not in pages)
                for rank in pages.values():
                    self._put(broker, rank)
            return message.last
        if isinstance(message, Change):
            pages[message.rank.key] = message.rank
            return self._put(broker, message.rank)
        if self.owner(message.key) is not broker:
            return False
        del self._ranks[message.key]
        return True

    def drop(self, is_gone: Callable[[str, B], bool]) -> bool:
        """Remove ranks by key and broker. Return True if any was removed."""
        gone = [key for key, (owner, _) in self._ranks.items() if is_gone(key, owner)]
        for key in gone:
            del self._ranks[key]
        return bool(gone)

    def _put(self, broker: B, rank: RankInfo) -> bool:
        found = self._ranks.get(rank.key)
        if found is not None and found[0] is not broker and _weight(rank) < _weight(found[1]):
            return False
        self._ranks[rank.key] = broker, rank
        return True


def _weight(rank: RankInfo) -> tuple[bool, int, bool]:
    """Return a sort key that is larger for the newer one of two records of a rank.

    A record of an ended process is the newest one, because the process does not return. Otherwise the later
    registration is newer. If both records are of one registration, the LOST one is older.
    """
    return rank.state is RankState.EXITED, rank.epoch, rank.state is not RankState.LOST
