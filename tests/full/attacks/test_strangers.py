"""Attacks of those who have no token: what the others feel, and that a driver and a rank still get in.

A driver and a rank connect from an address of their own, and from that of the attacker, where a NAT or a login node has
put them behind one. There they wait behind handshakes that don't go on, two seconds for sixteen of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.full.attacks import strangers
from tests.full.attacks.conftest import Attacked, under_attack

ATTACKS: dict[str, tuple[Callable[..., None], dict[str, object]]] = {
    "connections that say nothing": (strangers.connects, {}),
    "half TLS handshakes": (strangers.half_handshakes, {}),
    "300 TLS handshakes in one moment": (strangers.hellos_at_once, {}),
    "heads byte by byte": (strangers.slow_heads, {}),
    "wrong tokens": (strangers.wrong_tokens, {}),
    "requests for /metrics": (strangers.pages, {"page": "/metrics"}),
    "random bytes": (strangers.garbage, {}),
}

HOLD_SLOTS = {"half TLS handshakes", "300 TLS handshakes in one moment"}
"""Attacks of hundreds of handshakes that don't go on, behind which nobody of the same address waits in this test."""


@pytest.mark.parametrize(("number", "name"), list(enumerate(ATTACKS)), ids=ATTACKS)
def test_attacks_without_a_token_delay_no_key_and_no_connection(attacked: Attacked, number: int, name: str) -> None:
    attack, options = ATTACKS[name]
    # Another address for each, as connections of the one before may still wait.
    address = f"127.0.1.{number + 1}"
    with attacked.by(attack, address=address, **options):
        felt = attacked.feel()
        elsewhere = attacked.echo.seconds_to_connect(f"127.0.2.{number + 1}")
        more = f"in {elsewhere:.1f} s"
        if name not in HOLD_SLOTS:
            more += f", from the same address in {attacked.echo.seconds_to_connect(address):.1f} s"
    attacked.report(name, felt, more)
    felt.check()


def with_few_files(command: Sequence[str]) -> list[str]:
    """Return a command with a limit of 128 open files."""
    return ["/bin/sh", "-c", 'ulimit -n 128; exec "$@"', "sh", *command]


def test_peers_connect_although_an_attacker_uses_all_files(tmp_path: Path) -> None:
    with (
        under_attack(tmp_path, wrap=with_few_files) as attacked,
        attacked.by(strangers.half_handshakes, address="127.0.1.1", held=200),
    ):
        attacked.echo.seconds_to_connect("127.0.2.1")
