"""A token for one job: ranks and guards of others are refused, and a terminal can neither see nor question others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dbg_broker.home.tokens import IssuedToken, IssuedTokens, Role, digest_of, save_issued
from dbg_broker.net.websocket import CloseCode
from dbg_wire.limits import ENDED_RANK_SECONDS
from dbg_wire.messages import (
    Action,
    Answers,
    Change,
    Finding,
    Gone,
    Goodbye,
    Greet,
    Kind,
    Logged,
    Message,
    Mode,
    Notice,
    Question,
    Refusal,
    RefusalCode,
    Sender,
    Snapshot,
    Subscribe,
    Welcome,
)
from dbg_wire.messages import GuardReport as GuardsWord
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.answers import answers_of
from tests.unit.broker.peers import RUNNING, Broker, Peer, attach, registration, running_broker

OURS, THEIRS = registration(0), registration(1, job="other", key="other/1")

TOKENS = {Role.DRIVER: "for-drivers-of-job-4711.0", Role.WATCHER: "for-watchers-of-job-4711.0"}


@pytest_asyncio.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """Run a broker that has issued a driver's and a watcher's token for job 4711.0."""
    save_issued(
        tmp_path,
        IssuedTokens(
            tuple(
                IssuedToken(name=role.value, role=role, digest=digest_of(token), made=0.0, job=OURS.identity.job)
                for role, token in TOKENS.items()
            )
        ),
    )
    async with running_broker(tmp_path) as running:
        yield running


async def terminal(broker: Broker, role: Role = Role.DRIVER) -> Peer:
    peer = Peer(await broker.dial("/client", TOKENS[role]), Sender.CLIENT)
    await peer.send(Greet(minor=0, release="0.1.0", name="alice@h"))
    await peer.expect(Welcome)
    return peer


async def turned_away(peer: Peer) -> str:
    """Wait until a peer is refused, and return the reason."""
    refusal = await peer.expect(Refusal)
    assert refusal.code == RefusalCode.ROLE
    assert (await peer.closed())[0] == CloseCode.DONE
    return refusal.text


async def test_only_ranks_of_the_job_are_admitted(approved: Approved, broker: Broker) -> None:
    token = broker.tokens.for_job(OURS.identity.job)
    rank = Peer(await broker.dial("/agent", token), Sender.AGENT)
    await rank.send(OURS)
    await rank.expect(Welcome)
    other = Peer(await broker.dial("/agent", token), Sender.AGENT)
    await other.send(THEIRS)
    approved(await turned_away(other))


async def test_rank_of_another_job_cannot_be_replaced(broker: Broker) -> None:
    await broker.rank(1, job="other", key=THEIRS.identity.key)
    impostor = Peer(await broker.dial("/agent", broker.tokens.for_job(OURS.identity.job)), Sender.AGENT)
    await impostor.send(registration(0, key=THEIRS.identity.key))
    await turned_away(impostor)


async def test_key_of_another_job_cannot_be_taken_in_advance(broker: Broker) -> None:
    token = broker.tokens.for_job(OURS.identity.job)
    forged = registration(0, key=THEIRS.identity.key)
    for message in (forged, GuardsWord(minor=0, key=forged.identity.key, kind=Finding.SUSPENDED, registration=forged)):
        squatter = Peer(await broker.dial("/agent", token), Sender.AGENT)
        await squatter.send(message)
        await turned_away(squatter)
    await broker.rank(1, job="other", key=THEIRS.identity.key)


@pytest.mark.parametrize(
    "message",
    [
        registration(0, key=THEIRS.identity.key),
        registration(0, key=f"{OURS.identity.job}x/0"),
        GuardsWord(
            minor=0,
            key=THEIRS.identity.key,
            kind=Finding.SUSPENDED,
            registration=registration(0, key=THEIRS.identity.key),
        ),
    ],
)
async def test_key_must_begin_with_the_job_for_every_token(broker: Broker, message: Message) -> None:
    peer = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await peer.send(message)
    assert (await peer.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert not broker.parts.ranks.registry.keys()


async def test_a_rank_of_another_job_does_not_push_a_lost_rank_off_the_list(broker: Broker) -> None:
    lost = await broker.rank(1, job="other", key=THEIRS.identity.key, secret="a" * 32)
    await lost.cut()
    driver = await broker.terminal()
    await driver.send(Subscribe())
    await driver.expect(Snapshot, lambda page: page.ranks[0].state is RankState.LOST)
    impostor = Peer(await broker.dial("/agent", broker.tokens.for_job(OURS.identity.job)), Sender.AGENT)
    await impostor.send(registration(0, pid=THEIRS.process.pid, kernel=THEIRS.kernel))
    await impostor.expect(Welcome)
    assert set(broker.parts.ranks.registry.keys()) == {OURS.identity.key, THEIRS.identity.key}


async def test_guard_cannot_report_ranks_of_another_job(broker: Broker) -> None:
    await broker.rank(1, job="other", key=THEIRS.identity.key)
    guard = Peer(await broker.dial("/agent", broker.tokens.for_job(OURS.identity.job)), Sender.AGENT)
    await guard.send(GuardsWord(minor=0, key=THEIRS.identity.key, kind=Finding.ENDED, signal=9))
    await turned_away(guard)


async def test_terminal_receives_changes_of_its_job_only(broker: Broker) -> None:
    rank, other = await broker.rank(), await broker.rank(1, job="other", key=THEIRS.identity.key)
    alice = await terminal(broker, Role.WATCHER)
    await alice.send(Subscribe())
    snapshot = await alice.expect(Snapshot)
    assert [info.key for info in snapshot.ranks] == [OURS.identity.key]
    await other.send(Goodbye(exit=0))
    await broker.rank(2, job="other", key="other/2")
    await rank.send(Goodbye(exit=0))
    received = await alice.next()
    assert isinstance(received, Change)
    assert received.rank.key == OURS.identity.key


async def test_client_receives_log_texts_of_its_job_only(broker: Broker) -> None:
    rank, other = await broker.rank(), await broker.rank(1, job="other", key=THEIRS.identity.key)
    alice, everybody = await terminal(broker), await broker.terminal()
    for client in (alice, everybody):
        await client.send(Subscribe(logs=True))
        await client.expect(Snapshot)
    await other.send(Notice(text="theirs", is_log=True))
    assert (await everybody.expect(Logged)).text == "theirs"
    await rank.send(Notice(text="ours", is_log=True))
    assert [(await client.expect(Logged)).text for client in (alice, everybody)] == ["ours", "ours"]


async def test_terminal_is_notified_when_a_rank_of_its_job_is_forgotten(broker: Broker) -> None:
    for key, job in ((THEIRS.identity.key, "other"), (OURS.identity.key, OURS.identity.job)):
        rank = await broker.rank(key=key, job=job)
        await rank.send(Goodbye(exit=0))
        await rank.cut()
    alice = await terminal(broker)
    await alice.send(Subscribe())
    await alice.expect(Snapshot, lambda page: page.ranks[0].state is RankState.EXITED)
    for key in broker.parts.ranks.registry.expire(broker.parts.timers.clock() + 2 * ENDED_RANK_SECONDS):
        broker.parts.ranks.forget(key)
    gone = await alice.next()
    assert isinstance(gone, Gone)
    assert gone.key == OURS.identity.key


async def test_a_terminal_asks_and_attaches_within_its_job(broker: Broker) -> None:
    await broker.rank(report=RUNNING)
    await broker.rank(1, job="other", key=THEIRS.identity.key)
    alice = await terminal(broker)
    await alice.send(attach(THEIRS.identity.key, Mode.TAKE))
    assert (await alice.expect(Refusal)).code == RefusalCode.NO_SUCH_RANK
    await alice.send(Question(request=1, keys=(THEIRS.identity.key,), action=Action.KILL, seconds=5.0))
    (answer,) = answers_of(await alice.expect(Answers))
    assert answer.kind == Kind.LOST
