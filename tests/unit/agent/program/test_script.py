"""The command line of ``python -m dbg_agent``."""

from __future__ import annotations

import pytest

from dbg_agent.program.script import USAGE, main
from tests.conftest import Approved


@pytest.mark.parametrize("arguments", [[], ["-m"], ["nowhere.py"], ["--nonsense", "x.py"], ["--broker"]])
def test_a_bad_command_line_is_refused_in_one_line(
    approved: Approved, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    output = capsys.readouterr().err
    assert len(output.splitlines()) == 1
    approved(output)


def test_help_is_printed_without_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert (ended.value.code, *capsys.readouterr()) == (0, USAGE, "")
