"""Attacks with a token, each a case of one test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.full.attacks.conftest import Attacked


class Case(NamedTuple):
    """An attack by its name; ``options`` are those of its function."""

    name: str
    attack: Callable[..., None]
    options: Mapping[str, Any] = MappingProxyType({})


def measure(attacked: Attacked, case: Case) -> None:
    """Run an attack from the address of the echo, measure the echo, and tell and check the figures."""
    with attacked.by(case.attack, **case.options):
        felt = attacked.feel()
    attacked.tell(case.name, felt)
    felt.check()
