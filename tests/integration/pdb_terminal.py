"""A terminal that speaks the protocol itself, to reply to the prompts of a rank and follow its log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_broker.auth import load_tokens
from dbg_wire.codec import Output, decode_data
from dbg_wire.messages import (
    Attach,
    Change,
    Greet,
    Message,
    Mode,
    PromptState,
    RankReport,
    Reply,
    Report,
    Seat,
    Sender,
    Snapshot,
    Subscribe,
    Welcome,
)
from dbg_wire.ranks import RankInfo, RankState
from dbg_wire.version import PROTOCOL_MINOR, RELEASE, subprotocol
from tests.agent.pdb_scripts import Event
from tests.broker.peers import Peer, trusting_context
from tests.support.broker import RunningBroker

Answer = Callable[[list[Event]], str | None]
"""Tells what to reply, given what the program has noted since the last prompt; None to leave for good."""


class PdbTerminal:
    """Sit at one rank and put together what is seen there."""

    def __init__(self, peer: Peer, noted: Path) -> None:
        self._peer = peer
        self._noted = noted
        self._read = 0
        self._generation = 0
        self._session = 0
        self._log = bytearray()
        self._shown = 0
        self._answered = 0
        self._echo = b""
        self._told = 0
        self._report = RankReport(state=RankState.RUNNING)
        self.events: list[Event] = []

    async def drive(self, pid: int, answer: Answer) -> bool:
        """Reply to all prompts of a process until it has exited; return False if ``answer`` leaves before."""
        await self._peer.say(Subscribe())
        while True:
            said = await self._peer.next()
            if isinstance(said, bytes):
                self._take(said)
            elif await self._hear(said, pid):
                self._show()
                return True
            if not await self._reply(answer):
                return False

    async def _hear(self, said: Message, pid: int) -> bool:
        """Take note of a message; return whether the rank has exited."""
        if isinstance(said, Snapshot):
            for rank in said.ranks:
                await self._sit_down(rank, pid)
        elif isinstance(said, Change):
            await self._sit_down(said.rank, pid)
            return said.rank.pid == pid and said.rank.state in (RankState.EXITED, RankState.LOST)
        elif isinstance(said, Seat):
            self._generation = said.generation or 0
            self._report = said.report
        elif isinstance(said, Report):
            self._report = said.report
        return False

    async def _sit_down(self, rank: RankInfo, pid: int) -> None:
        if rank.pid == pid and rank.state is RankState.STOPPED and not self._generation:
            self._generation = -1
            wish = Attach(key=rank.key, mode=Mode.DRIVE, rows=40, columns=120, colors=256, engine="pdb")
            await self._peer.say(wish)

    def _take(self, frame: bytes) -> None:
        output = decode_data(frame, Sender.AGENT)
        if not isinstance(output, Output):
            raise AssertionError(f"a terminal got {output}")
        if output.session != self._session:
            self._show()
            self._session, self._log, self._shown = output.session, bytearray(), 0
        if output.offset != len(self._log):
            raise AssertionError(f"output at {output.offset} of a log of which {len(self._log)} bytes are known")
        self._log += output.data

    def _show(self) -> None:
        """Note what the log has by now; what the program printed came after the reply that let it go on."""
        fresh = bytes(self._log[self._shown :])
        self._shown = len(self._log)
        if self._echo and fresh:
            first, fresh = fresh[: len(self._echo)], fresh[len(self._echo) :]
            self._echo = b""
            self.events.append(["log", first.decode()])
        self._note_program()
        if fresh:
            self.events.append(["log", fresh.decode()])

    def _note_program(self) -> None:
        text = self._noted.read_text(encoding="utf-8") if self._noted.exists() else ""
        self.events += [json.loads(line) for line in text[self._read :].splitlines()]
        self._read = len(text)

    async def _reply(self, answer: Answer) -> bool:
        """Reply to the prompt if it is new and all that was written before it is here."""
        prompt, session = self._report.prompt, self._report.session
        if prompt is None or session is None or prompt.number <= self._answered:
            return True
        if session.number != self._session or len(self._log) < prompt.offset:
            return True
        self._show()
        self._answered = prompt.number
        confirms = prompt.state is PromptState.CONFIRM
        told, self._told = self._told, len(self.events)
        reply = "k" if confirms else answer(self.events[told:])
        self.events.append(["confirm" if confirms else "prompt", prompt.text, reply])
        if reply is None:
            return False
        self._echo = f"{prompt.text}{reply}\n".encode()
        await self._peer.say(Reply(prompt=prompt.number, generation=self._generation, text=reply))
        return True


def drive(broker: RunningBroker, pid: int, noted: Path, answer: Answer) -> tuple[list[Event], bool]:
    """Drive a rank through the broker until it has exited, or ``answer`` leaves; return what was seen, and which."""

    async def run() -> tuple[list[Event], bool]:
        token = load_tokens(broker.home).driver
        async with connect(
            f"{broker.url.partition('#')[0]}/client",
            additional_headers={"Authorization": f"Bearer {token}"},
            subprotocols=[Subprotocol(subprotocol())],
            compression=None,
            ping_interval=None,
            max_size=None,
            ssl=trusting_context(),
        ) as websocket:
            peer = Peer(websocket, Sender.CLIENT)
            await peer.say(Greet(minor=PROTOCOL_MINOR, release=RELEASE, name="tester"))
            await peer.expect(Welcome)
            terminal = PdbTerminal(peer, noted)
            return terminal.events, await terminal.drive(pid, answer)

    return asyncio.run(run())
