"""``set_trace()`` in odd places, and where files, threads or output are missing: it stops or goes on, never raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import start_ranks, wait_until_stopped


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A script that calls ``set_trace()`` once, prints ``done`` and ends well; and how it is started."""

    script: str
    started_by: str = 'exec "$@"'
    env: Mapping[str, str] = field(default_factory=dict)
    can_print: bool = True
    """Whether the stderr of the script can be written to."""

    def start(self, processes: Processes, home: Path, **variables: str) -> Child:
        env = {**self.env, **variables}
        (rank,) = start_ranks(
            processes, home, self.script, 1, env=env, wrap=lambda command: ["sh", "-c", self.started_by, "sh", *command]
        )
        return rank

    def check(self, rank: Child) -> None:
        """Fail unless the rank ended as without the agent, but for one line on stderr."""
        assert rank.wait() == 0
        if "1>&-" not in self.started_by:
            assert rank.text() == "done\n"
        errors = rank.text("stderr")
        assert len(errors.splitlines()) == self.can_print, errors


PLAIN = """\
from dbg_agent import set_trace
set_trace()
print("done")
"""

SITUATIONS = {
    "warnings are errors": Situation(script=PLAIN, env={"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}),
    "ascii locale": Situation(script=PLAIN, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "no streams": Situation(script=PLAIN, started_by='exec "$@" 0<&- 1>&- 2>&-', can_print=False),
    "full stderr": Situation(script=PLAIN, started_by='exec "$@" 2>/dev/full', can_print=False),
    "broken stderr": Situation(
        script=f"""\
import sys
class Broken:
    def write(self, text):
        raise RuntimeError("no")
    def flush(self):
        pass
sys.stderr = Broken()
{PLAIN}
sys.stderr = sys.__stderr__
""",
        can_print=False,
    ),
    "no temporary folder": Situation(script=PLAIN, env={"TMPDIR": "/proc/none", "TEMP": "/proc/none"}),
    "full disk": Situation(
        script=f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n{PLAIN}",
    ),
    "read-only home": Situation(script=PLAIN, env={"HOME": "/proc"}),
    "relative home": Situation(script=PLAIN, env={"HOME": "here"}),
    "directory removed": Situation(
        script=f"import os\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n{PLAIN}",
    ),
    "from standard input": Situation(script=PLAIN, started_by='exec "$1" - < "$2"'),
    "in a function of a string": Situation(
        script="from dbg_agent import set_trace\nexec('def f():\\n    set_trace()\\nf()')\nprint('done')\n"
    ),
    "in asyncio": Situation(
        script="""\
import asyncio
from dbg_agent import set_trace
async def inner():
    await asyncio.sleep(0)
    set_trace()
    await asyncio.sleep(0)
    return "done"
async def main():
    print(*await asyncio.gather(inner(), return_exceptions=False))
asyncio.run(main())
"""
    ),
    "in a signal handler": Situation(
        script="""\
import signal
from dbg_agent import set_trace
signal.signal(signal.SIGUSR1, lambda number, frame: set_trace())
signal.raise_signal(signal.SIGUSR1)
print("done")
"""
    ),
    "in an except block": Situation(
        script="""\
import sys
from dbg_agent import set_trace
try:
    1 / 0
except ZeroDivisionError as error:
    set_trace()
    assert sys.exc_info()[1] is error
try:
    raise
except RuntimeError:
    print("done")
"""
    ),
    "in __del__": Situation(
        script="""\
from dbg_agent import set_trace
class Held:
    def __del__(self):
        set_trace()
held = Held()
del held
print("done")
"""
    ),
    "in a thread after the main thread": Situation(
        script="""\
import threading
from dbg_agent import install, set_trace
# Python 3.12 starts no thread any more once the main one has ended, so ours must be there.
install()
def work():
    threading.main_thread().join()
    set_trace()
    print("done")
threading.Thread(target=work).start()
"""
    ),
    "at exit, before our own goodbye": Situation(
        script="""\
import atexit, dbg_agent
dbg_agent.install()
@atexit.register
def leave():
    dbg_agent.set_trace()
    print("done")
"""
    ),
}

IN_CI = (
    "no streams",
    "in asyncio",
    "in a signal handler",
)
"""Of these situations each needs other code; the full tier has the others."""


def stops_and_goes_on(name: str, *, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    situation = SITUATIONS[name]
    running_broker(processes, home)
    rank = situation.start(processes, home)
    wait_until_stopped(home, 1)
    if situation.can_print:
        # A rank that has a terminal already prints nothing about its stop.
        rank.wait_for_output("stopped at", stream="stderr")
    terminal = sit_in_pudb(open_terminal, ":0")
    terminal.send("c")
    assert terminal.exit_status() == 7
    situation.check(rank)


@pytest.mark.parametrize("name", IN_CI)
def test_set_trace_stops_opens_a_debugger_and_continues(
    name: str, *, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    stops_and_goes_on(name, processes=processes, home=home, open_terminal=open_terminal)
