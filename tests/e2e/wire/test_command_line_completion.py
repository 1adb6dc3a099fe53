from __future__ import annotations

import subprocess

import pytest

from dbg_wire.command_line.completion import SHELLS, completion_script
from tests.support.requirements import needs_shells

CHECKS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-f", "-n"], "fish": ["fish", "--no-execute"]}


@needs_shells
@pytest.mark.parametrize("program", ["dbg-attach", "dbg-broker"])
@pytest.mark.parametrize("shell", SHELLS)
def test_each_script_is_one_of_its_shell(shell: str, program: str) -> None:
    script = completion_script(program, shell)

    subprocess.run(CHECKS[shell], input=script, text=True, check=True, timeout=60)
    assert f"{program} completion {shell}" in script
    assert "{" not in script.replace("${", "").replace("{\n", "")
