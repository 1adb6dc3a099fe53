"""A verdict that a terminal tells is passed on, but for those of watchers and of tokens for another job."""

from __future__ import annotations

from dbg_broker.events.event import Event, EventKind
from dbg_broker.events.occasions import Occasions
from dbg_broker.home.bearer import Role
from dbg_broker.timers import Timers
from dbg_wire.messages import Hang, Snapshot, Subscribe
from tests.unit.broker.peers import Broker

HANG = Hang(job="4711.0", kind="missing", sentence="rank 3 is missing", ranks="3")


def listen(broker: Broker) -> list[Event]:
    """Have the events of a broker put into a list."""
    told: list[Event] = []
    timers = broker.hub.timers
    occasions = Occasions(told.append, Timers(timers.clock, timers.schedule, wall=timers.clock))
    broker.hub.journal.occasions = occasions
    return told


async def test_verdicts_of_drivers_are_events_and_those_of_watchers_are_not(broker: Broker) -> None:
    told = listen(broker)
    watcher, driver = await broker.terminal("alice@h", Role.WATCHER), await broker.terminal()
    for terminal in (watcher, driver):
        await terminal.say(HANG if terminal is driver else Hang(job="j", kind="dead", sentence="made up"))
        # The answer says that the message before was taken.
        await terminal.say(Subscribe(once=True))
        await terminal.expect(Snapshot)
    assert [(event.kind, event.job) for event in told] == [(EventKind.HANG, "4711.0")]


async def test_a_broker_without_a_command_takes_no_note(broker: Broker) -> None:
    driver = await broker.terminal()
    await driver.say(HANG)
    await driver.say(Subscribe(once=True))
    assert (await driver.expect(Snapshot)).last
