"""Attacks of those who have a token, of ranks, of watchers or of drivers: no key of another driver waits for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.full.attacks import ranks, terminals
from tests.full.attacks.conftest import Attacked

WATCHER, DRIVER = {"role": "watcher"}, {"role": "driver"}

ATTACKS: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "messages of 300,000 objects": (ranks.many_objects, {}),
    "100 ranks that wait for 4,096 others each": (ranks.holds, {}),
    "ranks that come and go": (ranks.comings, {}),
    "pings": (ranks.pings, {}),
    "output in pieces of one byte": (ranks.output, {}),
    "watchers that ask for the list and don't read": (terminals.lists, WATCHER | {"reads": False}),
    "watchers that ask 2,500 ranks for their stacks": (terminals.questions, WATCHER | {"action": "where"}),
    "60 watchers of a rank that draws bytes": (terminals.shown_to_many, {}),
    "drivers that ask 2,500 ranks for a value": (terminals.questions, DRIVER | {"action": "eval"}),
    "60 drivers that take the keyboard": (terminals.takes, {}),
    "60 drivers that type, and ranks that draw": (terminals.keys, DRIVER),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_peers_with_a_token_delay_no_key_of_others(attacked: Attacked, name: str) -> None:
    attack, options = ATTACKS[name]
    attacked.measure(name, attack, **options)
