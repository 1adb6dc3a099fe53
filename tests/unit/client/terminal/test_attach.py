"""Whether another session follows one that has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from dbg_client.core.choose import Choice
from dbg_client.core.switchboard import Switchboard
from dbg_client.terminal.attach import WENT_ON, Attaching, Startup
from dbg_client.terminal.session import End, SessionOutcome
from dbg_client.terminal.verb import Attach
from dbg_command.targets import parse_target
from tests.unit.client.command_line.typed import settled
from tests.unit.client.fake_broker import make_rank


@pytest.mark.parametrize(
    ("words", "ends", "status"),
    [
        ("0", [End.WENT_ON], WENT_ON),
        ("0", [End.DETACHED], 0),
        ("--follow 0", [End.DETACHED], 0),
        ("--follow 0", [End.WENT_ON, End.WENT_ON, End.DETACHED], 0),
    ],
)
async def test_follow_continues_until_the_user_detaches(
    words: str, ends: list[End], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = SimpleNamespace(ranks=[make_rank(0, key="launch 0")])
    switchboard = cast(Switchboard, SimpleNamespace(directory=directory))
    attaching = Attaching(settled(words, Attach), switchboard, Startup(()))
    held: list[str] = []

    async def session(choice: Choice) -> SessionOutcome:
        held.append(choice.rank.key)
        directory.ranks = [make_rank(0, key=f"launch {len(held)}")]
        return SessionOutcome(end=ends[len(held) - 1], rank=choice.rank, opened=True)

    monkeypatch.setattr(attaching, "session", session)
    assert await attaching.run(parse_target("0")) == status
    assert held == [f"launch {number}" for number in range(len(ends))]
