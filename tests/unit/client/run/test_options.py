"""The options of ``run``, and their checks."""

from __future__ import annotations

import pytest

from dbg_client.run.options import RunOptions
from dbg_client.run.verb import Run
from dbg_wire.errors import BadInput
from tests.conftest import Approved
from tests.unit.client.command_line.typed import settled


@pytest.mark.parametrize(
    "options",
    [
        RunOptions(),
        RunOptions(stop_at=("a.py:1", "a b.py:20, x > 1"), stop_in=("a.b:C.m",)),
        RunOptions(ranks="0-3,7", rank_filter="gpu1:*,!5", engine="pdb", post_mortem=True),
        RunOptions(collective_timeout="600", hang_after="0", listen="0.0.0.0:0"),
        RunOptions(hang_after="300", on_hang="end"),
    ],
)
def test_valid_options_are_accepted(options: RunOptions) -> None:
    options.check()


@pytest.mark.parametrize(
    "options",
    [
        RunOptions(stop_at=("train.py",)),
        RunOptions(stop_at=("train.py:0",)),
        RunOptions(stop_at=("train.py:3, x =",)),
        RunOptions(stop_in=("module",)),
        RunOptions(stop_at=tuple(f"a.py:{line}" for line in range(1, 101)), stop_in=("a:f",)),
        RunOptions(ranks="3-x"),
        RunOptions(hang_after="soon"),
        RunOptions(on_hang="report"),
        RunOptions(collective_timeout="ten"),
        RunOptions(collective_timeout="nan"),
        RunOptions(collective_timeout="-1"),
        RunOptions(collective_timeout="1e8"),
        RunOptions(rank_filter="other/0-3"),
        RunOptions(rank_filter="[["),
    ],
)
def test_invalid_options_are_refused_with_their_value(approved: Approved, options: RunOptions) -> None:
    with pytest.raises(BadInput) as refused:
        options.check()
    approved(str(refused.value))
    assert str(refused.value).isprintable()


def test_command_follows_two_dashes() -> None:
    assert settled("run -- srun -- x", Run).command == ("srun", "--", "x")
    for line in (
        "run --again",
        "run --pty -- true",
        "run",
        "run --",
        "run python train.py",
        "run --engine gdb -- true",
    ):
        with pytest.raises(BadInput):
            settled(line, Run)


def test_options_are_kept_as_typed() -> None:
    line = "run --stop-at a.py:1 --stop-at 'a.py:2, x' --stop-in a:f --hang-after 5 --on-hang end -x f -- true"
    assert settled(line, Run).options == RunOptions(
        stop_at=("a.py:1", "a.py:2, x"), stop_in=("a:f",), hang_after="5", on_hang="end", commands="f"
    )


def test_engine_option_applies_to_the_job_and_not_the_terminal() -> None:
    settings = settled("run --engine pdb -- true", Run)
    assert settings.options.engine == "pdb"
    assert settings.attach.spec.asked is None
