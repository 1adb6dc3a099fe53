"""Variables that more than one role knows are named in one place."""

from __future__ import annotations

import ast

from dbg_agent.launch import claim
from dbg_agent.settings import Settings
from dbg_wire.finding import environment
from tests.support.packages import parsed

NAMES = {value for name, value in vars(environment).items() if name.isupper()}

SPELLED_ONCE_MORE = {
    "agent/dbg_agent/autostart.py": {environment.STOP_AT, environment.STOP_IN},
    "agent/dbg_agent/launch/claim.py": {environment.AUTOSTART},
    "agent/dbg_agent/launch/this_process.py": {environment.JOB},
}
"""Modules that run in every interpreter of a job, and so do not import dbg_wire."""


def test_no_other_module_spells_them() -> None:
    found: dict[str, set[str]] = {}
    for module, tree in parsed(*NAMES):
        constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        if spelled := constants & NAMES:
            found[module.place] = spelled  # type: ignore[assignment] # the names are strings
    assert found == {"wire/dbg_wire/finding/environment.py": NAMES, **SPELLED_ONCE_MORE}


def test_what_starts_by_itself_knows_the_variable() -> None:
    assert claim.VARIABLE == environment.AUTOSTART


def test_variables_of_a_rank_are_named_for_its_settings() -> None:
    fields = {f"DBG_{name.upper()}" for name in Settings.__dataclass_fields__}
    assert fields >= {
        environment.BROKER,
        environment.ENGINE,
        environment.RANKS,
        environment.POST_MORTEM,
        environment.COLLECTIVE_TIMEOUT,
    }
