from __future__ import annotations

import math
import sys

import pytest

from dbg_client.after.report import Report
from dbg_client.terminal.verb import Attach, Wait
from dbg_client.verbs.control import Interrupt
from dbg_client.verbs.list import ListRanks
from dbg_client.verbs.preferences import EngineSpec
from dbg_client.verbs.screen import Screen
from dbg_client.verbs.values import Eval, PdbCommand
from dbg_client.verbs.verb import RanksVerb, Verb
from dbg_client.verbs.where import Where
from dbg_wire.errors import BadInput
from dbg_wire.messages import Mode
from tests.unit.client.command_line.typed import settled


def test_attach_is_the_default_verb() -> None:
    settings = settled("gpu013:5", Attach)

    assert (settings.name, settings.attach.mode, settings.target) == ("attach", Mode.DRIVE, "gpu013:5")
    assert settled("attach gpu013:5", Attach) == settings


def test_verbs_at_a_stop_take_a_frame() -> None:
    assert settled("eval x --frame ' Model.step '", Eval).frame == "Model.step"
    assert settled("command all n --frame ' Model.step '", PdbCommand).frame == "Model.step"
    assert settled("5 --frame ' Model.step '", Attach).attach.frame == "Model.step"
    assert settled("interrupt 5 --frame ' Model.step '", Interrupt).attach.frame == "Model.step"


@pytest.mark.parametrize(
    "line",
    [
        "5 --watch --take",
        "5 --watch --frame f",
        "where --native --threads",
        "eval ''",
        "eval ' '",
        "command all ''",
        f"eval {'x' * 16385}",
        "eval x --frame ' '",
        f"eval x --frame {'f' * 301}",
        "where --for 60s",
        "wait 5 --for soon",
        "where --wait --for -1s",
        "adopt",
        "adopt 1 --mine",
        "adopt x",
        "adopt 0",
        "completion",
        "completion csh",
        "exec 0 -- ''",
        f"exec 0 -- {'x' * 16385}",
        "dap --no-secret",
        "dap all --port 70000",
        "dap all --port 0-7",
        "dap all --port 0 --vscode",
    ],
)
def test_contradictory_and_invalid_options_are_refused(line: str) -> None:
    with pytest.raises(BadInput) as caught:
        settled(line, Verb)

    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("line", "kind", "target", "wait"),
    [
        ("where --wait", Where, None, math.inf),
        ("where --wait --for 5m", Where, None, 300.0),
        ("screen 5 --wait", Screen, "5", math.inf),
        ("eval x --wait", Eval, None, math.inf),
        ("command n --wait --for 2", PdbCommand, None, 2.0),
        ("report", Report, None, None),
    ],
)
def test_a_verb_may_wait_for_a_stop_first(
    line: str, kind: type[RanksVerb], target: str | None, wait: float | None
) -> None:
    settings = settled(line, kind)

    assert (settings.target, settings.deadline) == (target, wait)


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf", "1e99"])
def test_invalid_seconds_are_refused_by_name(text: str) -> None:
    with pytest.raises(BadInput, match="--for"):
        settled(f"wait 5 --for={text}", Wait)
    with pytest.raises(BadInput, match="--timeout"):
        settled(f"5 --timeout={text}", Attach)


@pytest.mark.parametrize(
    ("environ", "tty", "color"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_color_is_used_on_terminals_that_support_it(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], tty: bool, color: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: tty)
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert settled("list", ListRanks, environ).output.color is color
    assert settled("5", Attach, environ).color is color


# ------------------------------------------------------------------------------------------------------ line debuggers


def test_requested_engine_and_default_are_separate() -> None:
    spec = settled("5 --engine pudb", Attach, {"DBG_ENGINE": "pdb"}).attach.spec

    assert (spec.asked, spec.default) == ("pudb", "pdb")
    assert settled("5", Attach, {"DBG_ENGINE": "pdb"}).attach.spec == EngineSpec(None, "pdb")
    assert settled("5", Attach, {"DBG_ENGINE": ""}).attach.spec == EngineSpec()


def test_file_of_commands_is_kept() -> None:
    assert settled("5 -x cmds", Attach).attach.commands == "cmds"
