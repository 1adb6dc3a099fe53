"""Which programs are ours or a launcher's."""

from __future__ import annotations

import pytest

from dbg_client.adopt.found import is_guard, is_ours, starts_ranks


@pytest.mark.parametrize("command", ["/venv/bin/dbg-attach list", "-m dbg_client all", "/a/dbg_agent/guard/process.py"])
def test_ours_are_known(command: str) -> None:
    assert is_ours(command.split())


@pytest.mark.parametrize("command", ["train.py dbg-attach", "-m train", "-c pass", ""])
def test_others_are_not_ours(command: str) -> None:
    assert not is_ours(command.split())
    assert not is_guard(command.split())


@pytest.mark.parametrize(
    "command", ["-m torch.distributed.run x.py", "/usr/bin/torchrun x.py", "-m deepspeed.launcher.x"]
)
def test_launchers_are_known(command: str) -> None:
    assert starts_ranks(command.split(), {})
    assert not starts_ranks(["train.py"], {})
