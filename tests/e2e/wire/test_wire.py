"""What shells, kernels and any program do with our scripts, our tables and our records."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_command.command_line import SHELLS, completion_script
from dbg_wire.codec import decode, encode
from dbg_wire.libraries import call_names
from dbg_wire.messages import (
    KINDS_OF_AGENTS,
    REPORTED_STATES,
    Answer,
    Complete,
    Greet,
    Message,
    RankReport,
)
from dbg_wire.records.record import Record, checked, clamp, hints_of
from tests.support.requirements import needs_shells
from tests.unit.wire.values import any_value, kinds

CHECKS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-f", "-n"], "fish": ["fish", "--no-execute"]}


@needs_shells
@pytest.mark.parametrize("program", ["dbg-attach", "dbg-broker"])
@pytest.mark.parametrize("shell", SHELLS)
def test_each_completion_script_is_valid_in_its_shell(shell: str, program: str) -> None:
    script = completion_script(program, shell)

    subprocess.run(CHECKS[shell], input=script, text=True, check=True, timeout=60)
    assert f"{program} completion {shell}" in script
    assert "{" not in script.replace("${", "").replace("{\n", "")


@settings(max_examples=20)
@given(st.data())
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_message_can_be_made_of_any_values(kind: type[Record], data: st.DataObject) -> None:
    values = {name: data.draw(any_value(hint)) for name, hint in hints_of(kind).items()}
    if kind is Complete:
        values |= {"start": 0, "end": 0}
    if kind is Greet:
        values["name"] = "me@login1"
    if kind is RankReport:
        values["state"] = data.draw(st.sampled_from(sorted(REPORTED_STATES)))
    if kind is Answer:
        values["kind"] = data.draw(st.sampled_from(sorted(KINDS_OF_AGENTS)))
    values.pop("registration", None)
    made = clamp(kind, **values)
    assert checked(made) == made
    if isinstance(made, Message):
        assert decode(encode(made), next(iter(made.sender))) == made


def test_the_system_call_of_a_waiting_process_has_its_name() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        descriptor = os.pidfd_open(child.pid)
        calls = Path(f"/proc/{child.pid}/syscall")
        while (number := calls.read_text().split()[0]) == "running":
            assert not select.select([descriptor], [], [], 0)[0]
        os.close(descriptor)
        assert call_names(os.uname().machine)[int(number)] == "read"
        child.kill()
