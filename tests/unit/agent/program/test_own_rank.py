"""A launcher is no rank, and a forked child leaves its parent's rank alone."""

from __future__ import annotations

import os
import socket
import sys
import threading
from types import SimpleNamespace

import pytest

import dbg_agent
from dbg_agent.launch.this_process import this_process
from dbg_agent.program import own_rank
from dbg_agent.settings import Settings
from dbg_agent.stop import room
from tests.conftest import Approved


def test_a_launcher_is_never_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_rank, "_rank", None)
    monkeypatch.setattr(own_rank, "_become_rank", lambda _: pytest.fail("it has become one"))
    monkeypatch.setattr(own_rank, "is_launcher", lambda *_: True)
    assert own_rank.this_rank(Settings()) is None


def test_a_python_without_the_interpreters_lock_is_refused_once(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dbg_agent, "_told", False)
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
        monkeypatch.setattr(room, "forget_other_threads", lambda: None)
        for name, value in (("_rank", self), ("_lock", threading.RLock()), ("_forked_from", None), ("_abandoned", [])):
            monkeypatch.setattr(own_rank, name, value)

    def forget(self) -> None:
        """Give the signal of the break-in back."""
        self.has_signal = False


def test_a_forked_child_closes_its_parents_connection_which_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
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
