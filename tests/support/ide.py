"""An IDE at the other end of ``dbg-attach dap``: a client of the protocol that is not ours, debugpy's own messages.

Every message that comes is judged by the protocol's JSON schema as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from debugpy.common.messaging import JsonIOStream, JsonMessageChannel, MessageHandlers, MessageHandlingError

from tests.support.dap_schema import judge
from tests.support.environment import clean_environment
from tests.support.time_unit import seconds

Message = dict[str, Any]


class Refused(Exception):
    """An error response, with its sentence."""


class _JudgedStream(JsonIOStream):  # type: ignore[misc] # debugpy has no types
    """Hands over messages as they come, and keeps the first fault that the schema finds."""

    fault: Exception | None = None

    def read_json(self, decoder: Any = None) -> Any:
        message = super().read_json(decoder)
        try:
            judge(message)
        except Exception as error:
            self.fault = self.fault or error
        return message


class Ide:
    """A client and what it was told; its responses and events come in threads of their own."""

    def __init__(self, stream: _JudgedStream) -> None:
        self.events: list[Message] = []
        self._count = 0
        self.is_over = threading.Event()
        self._came = threading.Condition()
        self._stream = stream
        handlers = MessageHandlers(event=self._take, disconnect=self._ended)
        self._channel = JsonMessageChannel(stream, handlers, name="the adapter")
        self._channel.start()

    @classmethod
    def of(cls, process: subprocess.Popen[bytes]) -> Ide:
        """Return a client at the pipes of an adapter; :meth:`close` ends it."""
        return cls(_JudgedStream.from_process(process))

    def request(self, command: str, arguments: Message | None = None) -> Message:
        """Send a request and return the body of its response. Raises Refused for an error response."""
        try:
            body = self._channel.send_request(command, arguments).wait_for_response()
        except MessageHandlingError as error:
            raise Refused(error.reason) from None
        finally:
            self.check()
        return dict(body or {})

    def attach(
        self, breakpoints: Mapping[Path, Sequence[Message]] = {}, client: Mapping[str, object] = {}, **arguments: object
    ) -> list[Message]:
        """Begin a session as VS Code does; return the rows of the answers to its breakpoints."""
        self.request("initialize", {"adapterID": "debugpy", "clientName": "Visual Studio Code", **client})
        self.request("attach", {"type": "debugpy", "request": "attach", **arguments})
        self.event("initialized")
        rows = [row for path, wanted in breakpoints.items() for row in self.set_breakpoints(path, *wanted)]
        self.request("setExceptionBreakpoints", {"filters": ["uncaught"]})
        self.request("configurationDone")
        return rows

    def set_breakpoints(self, path: Path, *wanted: Message) -> list[Message]:
        source = {"name": path.name, "path": str(path)}
        return list(self.request("setBreakpoints", {"source": source, "breakpoints": list(wanted)})["breakpoints"])

    def threads(self) -> dict[str, int]:
        return {one["name"]: one["id"] for one in self.request("threads")["threads"]}

    def stack(self, thread: int, levels: int = 20) -> list[Message]:
        wanted = {"threadId": thread, "startFrame": 0, "levels": levels}
        return list(self.request("stackTrace", wanted)["stackFrames"])

    def top(self, thread: int) -> Message:
        return self.stack(thread)[0]

    def evaluate(self, expression: str, frame: int | None = None, context: str = "repl") -> str:
        given: Message = {"expression": expression, "context": context}
        return str(self.request("evaluate", given if frame is None else {**given, "frameId": frame})["result"])

    def variables(self, frame: int, scope: str = "Locals") -> dict[str, Message]:
        scopes = {one["name"]: one for one in self.request("scopes", {"frameId": frame})["scopes"]}
        body = self.request("variables", {"variablesReference": scopes[scope]["variablesReference"]})
        return {one["name"]: one for one in body["variables"]}

    def leave(self) -> None:
        self.request("disconnect", {"restart": False, "terminateDebuggee": False})
        assert self.is_over.wait(seconds(20))

    def event(self, name: str, fits: Callable[[Message], bool] = lambda body: True) -> Message:
        """Take the first event of this name that fits, of those that have come or will come, and return its body."""
        found: list[Message] = []

        def look() -> bool:
            found.extend(self._taken(name, fits))
            return bool(found) or self.is_over.is_set()

        with self._came:
            assert self._came.wait_for(look, seconds(30)), f"no such event; there came {self.events}"
        self.check()
        assert found, f"the session has ended; there came {self.events}"
        return found[0]

    def _taken(self, name: str, fits: Callable[[Message], bool]) -> list[Message]:
        """Take the first event of this name that has come and fits; return its body, if there is one."""
        with self._came:
            for at, one in enumerate(self.events):
                if one["event"] == name and fits(one["body"]):
                    return [self.events.pop(at)["body"]]
        return []

    def go_on(self, thread: int) -> None:
        self.request("continue", {"threadId": thread})

    def stop_of(self, rank: int) -> int:
        """Return the thread of a rank, once the window is told that it stands."""
        while True:
            count = self._count
            numbers = {number for name, number in self.threads().items() if re.search(rf":{rank}\b", name)}
            if taken := self._taken("stopped", lambda body: body["threadId"] in numbers):  # noqa: B023
                return int(taken[0]["threadId"])
            # The rank may come with the next event.
            with self._came:
                assert self._came.wait_for(lambda: self._count != count, seconds(30)), f"there came {self.events}"  # noqa: B023

    def stopped(self, thread: int) -> Message:
        return self.event("stopped", lambda body: bool(body["threadId"] == thread))

    def forget(self, name: str) -> None:
        """Drop the events of this name that have come and were not taken."""
        with self._came:
            self.events = [one for one in self.events if one["event"] != name]

    def printed(self, pattern: str) -> str:
        """Return what the debug console is told that has this pattern, now or when it comes."""
        return str(self.event("output", lambda body: re.search(pattern, body["output"]) is not None)["output"])

    def check(self) -> None:
        """Raise what the schema has found at fault with a message."""
        if self._stream.fault is not None:
            raise self._stream.fault

    def close(self) -> None:
        """Close the streams, and wait until both threads have ended."""
        self._channel.close()
        self._channel.wait()

    def _take(self, event: Any) -> None:
        with self._came:
            self.events.append({"event": event.event, "body": dict(event.body or {})})
            self._count += 1
            self._came.notify_all()

    def _ended(self) -> None:
        self.is_over.set()
        with self._came:
            self._came.notify_all()


def ide_environment(home: Path, variables: Mapping[str, str] = {}) -> dict[str, str]:
    return {**clean_environment({}, home), "DBG_HOME": str(home), **variables}


@contextmanager
def adapter_process(
    home: Path, *words: str, variables: Mapping[str, str] = {}, python: Path = Path(sys.executable)
) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``python`` with these words, by default those of the adapter, with pipes to it."""
    with subprocess.Popen(
        [str(python), *(words or ("-m", "dbg_client", "dap"))],
        env=ide_environment(home, variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def ide(
    home: Path, *words: str, variables: Mapping[str, str] = {}, python: Path = Path(sys.executable)
) -> Iterator[Ide]:
    """Start the adapter as an IDE does, by these words behind ``python``."""
    with (
        adapter_process(home, *words, variables=variables, python=python) as process,
        talking(_JudgedStream.from_process(process)) as one,
    ):
        yield one


@contextmanager
def talking(stream: _JudgedStream) -> Iterator[Ide]:
    one = Ide(stream)
    try:
        yield one
        one.check()
    finally:
        one.close()
