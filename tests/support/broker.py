"""A real broker process, which a test may kill and start again on its port."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.processes import Child, Processes
from tests.support.tokens import written_tokens

Wrap = Callable[[Sequence[str]], list[str]]
"""A function that turns a command into one that runs on another host of the tests."""


class RunningBroker:
    """A ``dbg-broker serve`` that is ready, with ``home`` as its ``DBG_HOME``; tests call it :func:`running_broker`.

    The broker listens on a free port of ``listen``, is logged as ``broker``, and ends with ``processes``.
    """

    def __init__(
        self,
        processes: Processes,
        home: Path,
        *arguments: str,
        listen: str = "127.0.0.1",
        env: Mapping[str, str] | None = None,
        wrap: Wrap = list,
    ) -> None:
        self.home = home
        self._processes = processes
        self._arguments = arguments
        self._host = listen
        self._env = {**(os.environ if env is None else env), "DBG_HOME": str(home)}
        self._wrap = wrap
        # Port 0: the broker takes a free one and says which.
        self.process = self._start(0)

    def _start(self, port: int) -> Child:
        command = [sys.executable, "-m", "dbg_broker", "serve", "--listen", f"{self._host}:{port}", *self._arguments]
        process = self._processes.start("broker", self._wrap(command), env=self._env)
        process.wait_for_output(r"^.+\n")
        if self.rendezvous["pid"] != process.pid:
            raise AssertionError(f"the broker was ready before it had written {self.home / 'broker.json'}")
        self._port = self.port
        return process

    @property
    def rendezvous(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.home / "broker.json").read_text())
        return document

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which the broker runs; ``DBG_HOME`` leads others to it."""
        return dict(self._env)

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens of this broker by the words for their roles."""
        return written_tokens(self.home)

    @property
    def url(self) -> str:
        return str(self.rendezvous["url"])

    @property
    def port(self) -> int:
        """The port on which the broker listens; a restart keeps it."""
        port = urlsplit(self.url).port
        if port is None:
            raise AssertionError(f"no port in {self.url!r}")
        return port

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def suspend(self) -> None:
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start an ended broker again on the same port and home, and return when it is ready."""
        if self.process.exit_status is None:
            raise AssertionError("the broker still runs; kill it first")
        self.process = self._start(self._port)


running_broker = RunningBroker
