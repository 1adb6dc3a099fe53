from __future__ import annotations

import pytest

from dbg_client.terminal.verb import Attach
from dbg_client.verbs.list import ListRanks
from dbg_wire.errors import BadInput
from tests.unit.client.command_line.typed import settled


def test_options_override_variables() -> None:
    environ = {"DBG_ESCAPE": "^_", "DBG_ENGINE": "pdb", "DBG_EDITING": "vi"}

    usual = settled("5", Attach, {})
    by_variable = settled("5", Attach, environ)
    by_option = settled("5 --escape none --engine pudb --timeout 5", Attach, environ)

    assert (usual.attach.prefix, usual.attach.spec.default, usual.broker.timeout) == (b"\x1d", None, 10.0)
    assert (by_variable.attach.prefix, by_variable.attach.spec.default) == (b"\x1f", "pdb")
    assert by_variable.attach.vi
    assert (by_option.attach.prefix, by_option.attach.spec.asked, by_option.broker.timeout) == (None, "pudb", 5.0)


@pytest.mark.parametrize(
    ("environ", "pager"),
    [
        ({"PAGER": "most"}, "most"),
        ({"PAGER": ""}, ""),
        ({}, "less"),
    ],
)
def test_pager_variable_is_used(environ: dict[str, str], pager: str) -> None:
    assert settled("list", ListRanks, environ).output.pager == pager


@pytest.mark.parametrize("environ", [{"DBG_ESCAPE": "x"}, {"DBG_ENGINE": "gdb\x1b"}])
def test_a_bad_value_of_a_variable_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(BadInput) as error:
        settled("5", Attach, environ)
    assert str(error.value).isprintable()
