"""A launcher is no rank, and a forked child leaves its parent's rank alone."""

from __future__ import annotations

import os
import socket
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import dbg_agent
from dbg_agent.launch.this_process import this_process
from dbg_agent.program import entry, own_rank
from dbg_agent.settings import Settings
from tests.conftest import Approved


def test_a_launcher_is_never_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_rank, "_rank", None)
    monkeypatch.setattr(own_rank, "_become_rank", lambda _: pytest.fail("it has become one"))
    monkeypatch.setattr(own_rank, "is_launcher", lambda *_: True)
    assert own_rank.this_rank(Settings()) is None


def test_a_python_without_the_global_interpreter_lock_is_refused_once(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dbg_agent, "_was_warned", False)
    monkeypatch.setattr(sys, "abiflags", "t")
    monkeypatch.setattr(own_rank, "_become_rank", lambda _: pytest.fail("it has become one"))
    dbg_agent.install()
    dbg_agent.set_trace()
    approved(capsys.readouterr().err)


class Parent:
    """The rank of the parent, as far as its child lets go of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *descriptors: int) -> None:
        self.membership = SimpleNamespace(identity=this_process())
        self.link = SimpleNamespace(descriptors=lambda: list(descriptors))
        self.debuggers = SimpleNamespace(last=self)
        self.break_in = self
        self.has_signal = True
        for name, value in (("_rank", self), ("_lock", threading.RLock()), ("_forked_from", None), ("_abandoned", [])):
            monkeypatch.setattr(own_rank, name, value)

    def forget(self) -> None:
        """Give the signal of the break-in back."""
        self.has_signal = False


def test_a_forked_child_closes_only_its_copy_of_the_parents_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    in_parent, broker = socket.socketpair()
    in_child = os.dup(in_parent.fileno())
    parent = Parent(monkeypatch, in_child)
    own_rank._forget_parent()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(in_child)
    broker.setblocking(False)
    with pytest.raises(BlockingIOError):
        broker.recv(1)
    assert (own_rank._rank, own_rank._forked_from) == (None, parent.membership.identity)
    assert not parent.has_signal
    in_parent.close()
    broker.close()


def test_a_forked_child_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    Parent(monkeypatch)
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        own_rank._forget_parent()
        assert sys.gettrace() is None
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(("has_prompts", "status"), [(False, 1), (True, None)])
def test_an_exception_at_a_python_prompt_sets_no_exit_status(
    monkeypatch: pytest.MonkeyPatch, has_prompts: bool, status: int | None
) -> None:
    program = SimpleNamespace(exit_status=None)
    rank = SimpleNamespace(program=program, debuggers=SimpleNamespace(last=None), close=lambda: None)
    monkeypatch.setattr(own_rank, "_rank", rank)
    monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    # Another test may have opened a prompt in this process.
    monkeypatch.delattr(sys, "ps1", raising=False)
    if has_prompts:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    own_rank.send_goodbye()
    assert program.exit_status == status


def test_a_stop_uses_the_latest_torch_rank_and_one_site_for_all_paths_of_a_file() -> None:
    sites = []
    membership = SimpleNamespace(
        identity=SimpleNamespace(rank=0, world_size=1), identify=lambda: SimpleNamespace(rank=1, world_size=2)
    )
    stopping = SimpleNamespace(stop=lambda *_args, site, **_options: sites.append(site))
    rank: Any = SimpleNamespace(membership=membership, stopping=stopping)
    settings = replace(Settings(), ranks=(1,))
    for path in ("/a/train.py", "train.py"):
        frame = eval(compile("sys._getframe()", path, "eval"), {"sys": sys})  # noqa: S307
        entry._stop_or_hold(rank, frame, settings, before_line=True)
    assert sites == ["train.py:1", "train.py:1"]
