"""A stand-in for the modules of torch that know process groups."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from dbg_agent.torch.calls import MODULE
from dbg_agent.torch.flight_recorder import NATIVE_MODULE

CALLS = """\
def all_reduce(tensor, op=None, group=None, async_op=False):
    look()

def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    look()

def reduce(tensor, dst=None, op=None, group=None, async_op=False, group_dst=None):
    look()

def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    look()

def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    isend(tensor, group=group, tag=tag, group_dst=1)

def recv(tensor, src=None, group=None, tag=0, group_src=None):
    look()

def reduce_scatter(output, input_list, op=None, group=None, async_op=False):
    look()

def reduce_scatter_single(output, input, op=None, group=None, async_op=False):
    look()

def reduce_scatter_tensor(output, input, op=None, group=None, async_op=False):
    reduce_scatter_single(output, input, op, group)

def new_group():
    look()

def _store_based_barrier():
    look()

def _new_group_with_tag(ranks, use_local_synchronization=False, barrier=False):
    if barrier:
        _store_based_barrier()
    else:
        look()
"""


class Work:
    """What a call returns that goes on in other threads; ``look`` is called in its stead when the program waits."""

    look: Callable[[], object] = staticmethod(lambda: None)

    def wait(self) -> None:
        Work.look()


class ProcessGroup:
    """A process group as torch's binary module has it."""

    def __init__(self, description: str, sequence: int | None) -> None:
        self.group_desc, self._sequence = description, sequence

    def broadcast(self, tensor: object, root: int) -> Work:
        return Work()

    def _get_sequence_number_for_group(self) -> int:
        if self._sequence is None:
            raise RuntimeError("this backend does not count")
        return self._sequence


class FakeTorch:
    """torch with groups of this process; ``look`` is called while a function of ``module`` runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.torch, self.module, self.native = ModuleType("torch"), ModuleType(MODULE), ModuleType(NATIVE_MODULE)
        vars(self.torch).update(__version__="2.13.0")
        vars(self.native).update(ProcessGroup=ProcessGroup)
        self.names: dict[Any, Any] = {}
        self.ranks: dict[Any, Any] = {}
        self.config: dict[Any, Any] = {}
        vars(self.module).update(
            _pg_names=self.names, _pg_group_ranks=self.ranks, _pg_backend_config=self.config, look=lambda: None
        )
        exec(CALLS, vars(self.module))  # noqa: S102 - the functions must have the module's globals
        for name, module in (("torch", self.torch), (MODULE, self.module), (NATIVE_MODULE, self.native)):
            monkeypatch.setitem(sys.modules, name, module)

    def add(
        self, description: str, *ranks: int, sequence: int | None = 0, config: str = "cpu:gloo,cuda:gloo"
    ) -> ProcessGroup:
        """Make a group of these global ranks."""
        group = ProcessGroup(description, sequence)
        self.names[group] = str(len(self.names))
        self.ranks[group] = {rank: at for at, rank in enumerate(ranks)}
        self.config[group] = config
        return group


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """Return a stand-in for torch, without a group yet."""
    return FakeTorch(monkeypatch)
