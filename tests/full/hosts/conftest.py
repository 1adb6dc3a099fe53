"""One stage for all faults of a worker: what they share takes longer to start than a fault to pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.full.hosts.stage import Stage, proxied_stage, two_host_stage
from tests.support.netns import hosts
from tests.support.processes import Processes
from tests.support.requirements import missing_for_netns
from tests.support.terminal import Terminal


@contextmanager
def standing(
    folder: Path, start: Callable[[Processes, Path, OpenTerminal], AbstractContextManager[Stage]]
) -> Iterator[Stage]:
    """Yield a stage with a home of its own in ``folder``; all its processes and terminals end with it."""
    home = folder / "dbg"
    home.mkdir(0o700)
    processes = Processes(folder / "logs")
    opened: list[Terminal] = []

    def open_terminal(
        command: Sequence[str], rows: int = 24, cols: int = 80, env: Mapping[str, str] | None = None
    ) -> Terminal:
        opened.append(Terminal(command, rows, cols, processes.marked(env or {})))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBG_HOME", str(home))
        try:
            with start(processes, home, open_terminal) as stage:
                yield stage
        finally:
            for terminal in opened:
                terminal.end()
            processes.end_all()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage on this host, with proxies."""
    with standing(tmp_path_factory.mktemp("stage"), proxied_stage) as stage:
        yield stage


@pytest.fixture(scope="module")
def stage_of_two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage on two hosts; skip where they can't be made."""
    if reason := missing_for_netns():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    with hosts(["h1", "h2"], folder) as (first, second):

        def start(processes: Processes, home: Path, open_terminal: OpenTerminal) -> AbstractContextManager[Stage]:
            return two_host_stage((first, second), processes, home, open_terminal)

        with standing(folder, start) as stage:
            yield stage
