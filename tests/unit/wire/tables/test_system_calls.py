"""Numbers of system calls are those of this machine's kernel."""

from __future__ import annotations

import pytest

from dbg_wire.tables.system_calls import call_names


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_number_has_two_names(machine: str) -> None:
    names = call_names(machine)
    assert len(names) > 50
    assert len(set(names.values())) == len(names)


def test_another_machine_has_none() -> None:
    assert call_names("pdp11") == {}
