"""Demo: four ranks stop at a breakpoint, and the loss of one of them is NaN.

``make demo`` runs it. It queries all ranks, and then attaches your terminal to PuDB in rank 2. When you leave the
debugger, all ranks resume, the broker ends, and all files are removed. Without a terminal, the demo prints the
debugger's screen as text.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO

SCRIPT = Path(__file__).with_name("ranks.py")
WORLD_SIZE = 4
DEBUGGED_RANK = 2
LOSS = "losses[-1]"

RIDDLE = f"""
The loss of rank {DEBUGGED_RANK} is not a number: why? Its PuDB has the batch of this step among its variables.
Ctrl-] d leaves PuDB. Enter opens it: """

AGAIN = "The answer to the riddle is in examples/shards.py. `make demo` plays again."

STOP_SECONDS = 60
"""Timeout for the ranks to stop: each starts an interpreter, perhaps on a busy machine."""

END_SECONDS = 10
"""Timeout for a process to end after SIGTERM; then it is killed."""

LEAVING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

FINE = frozenset({0, 7, 8})
"""Exit statuses of a successful attach: detached, the rank resumed, the rank has ended."""


class Trouble(Exception):
    """Raised if the demo can't continue; the message is a sentence."""


def dbg_attach(*arguments: str) -> list[str]:
    """Return the command line of the installed ``dbg-attach``."""
    return [str(Path(sys.executable).with_name("dbg-attach")), *arguments]


def show(*arguments: str) -> int:
    """Print a ``dbg-attach`` command, run it, and return its exit status."""
    print(f"\n$ {shlex.join(['dbg-attach', *arguments])}", flush=True)
    with running(subprocess.Popen(dbg_attach(*arguments))) as attached:
        return attached.wait()


@contextlib.contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End the process at the end of the block. SIGTERM comes first, so that the process can restore its terminal."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def broker() -> Iterator[None]:
    """Run a broker on loopback; ranks and terminals find its address and tokens in ``DBG_HOME``."""
    # The broker is ready when it prints its first line. Its stdout must stay open until it ends.
    command = [sys.executable, "-m", "dbg_broker", "serve"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    with running(process):
        if process.stdout is None or not process.stdout.readline():
            raise Trouble(f"the broker ended with status {process.wait()} before it was ready")
        yield


def rank_environment(rank: int) -> dict[str, str]:
    """Return the variables that torchrun sets for a rank."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(WORLD_SIZE),
        "LOCAL_WORLD_SIZE": str(WORLD_SIZE),
        "MASTER_ADDR": "127.0.0.1",
        # Part of the job's name; nothing listens on it.
        "MASTER_PORT": "29500",
    }


@contextlib.contextmanager
def ranks(output: IO[bytes]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Launch the ranks as torchrun does: each in its own session, without a terminal."""
    with contextlib.ExitStack() as stack:
        launched = []
        for rank in range(WORLD_SIZE):
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | rank_environment(rank),
                start_new_session=True,
            )
            launched.append(stack.enter_context(running(process)))
        yield launched


def wait_until_stopped(launched: list[subprocess.Popen[bytes]]) -> None:
    """Return when every rank is at its breakpoint."""
    with contextlib.ExitStack() as stack:
        waiting = {}
        for rank in range(len(launched)):
            command = dbg_attach("list", str(rank), "--wait", "--for", str(STOP_SECONDS))
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            waiting[stack.enter_context(running(process)).pid] = rank, process
        while waiting:
            # The first child that ends must be one of the waiting commands; a rank or the broker must not end yet.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if ended is None or ended.si_pid not in waiting:
                raise Trouble("a rank or the broker ended before all ranks had stopped")
            rank, process = waiting.pop(ended.si_pid)
            if process.wait() != 0:
                raise Trouble(f"rank {rank} did not stop at its breakpoint within {STOP_SECONDS} s")


def let_go(launched: list[subprocess.Popen[bytes]]) -> None:
    """Resume all ranks and wait until they end."""
    if any(process.poll() is None for process in launched):
        subprocess.run(dbg_attach("continue", "all"), check=False, capture_output=True)
    for process in launched:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)


def show_output(output: IO[bytes]) -> None:
    """Print the output of the ranks, which have no terminal."""
    output.seek(0)
    print("\nThe ranks printed:", flush=True)
    sys.stdout.buffer.write(output.read())
    sys.stdout.flush()


def visit() -> int:
    """Query all ranks, and attach this terminal to one of them; without a terminal, print its screen."""
    status = show("list") or show("where", "all") or show("eval", "all", LOSS)
    if status:
        return status
    if sys.stdin.isatty() and sys.stdout.isatty():
        wait_for_enter(RIDDLE)
        attached = show(str(DEBUGGED_RANK))
        return 0 if attached in FINE else attached
    return show("screen", str(DEBUGGED_RANK)) or show("continue", "all")


def wait_for_enter(question: str) -> None:
    """Wait until the user has read the screen, before PuDB uses all of it."""
    with contextlib.suppress(EOFError):
        input(question)


def leave(number: int, _frame: FrameType | None) -> None:
    """Exit in an orderly way on a signal; a second signal has no effect."""
    for leaving in LEAVING_SIGNALS:
        signal.signal(leaving, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    """Run the demo and return its exit status."""
    for leaving in LEAVING_SIGNALS:
        signal.signal(leaving, leave)
    with tempfile.TemporaryDirectory(prefix="dbg-demo-") as home, tempfile.TemporaryFile() as output:
        for name in [name for name in os.environ if name.startswith("DBG_")]:
            del os.environ[name]
        os.environ["DBG_HOME"] = home
        try:
            with broker(), ranks(output) as launched:
                print(f"Starting {WORLD_SIZE} ranks of examples/{SCRIPT.name}; each stops at a breakpoint.", flush=True)
                wait_until_stopped(launched)
                status = visit()
                let_go(launched)
        except Trouble as trouble:
            print(f"demo: {trouble}", file=sys.stderr)
            status = 1
        show_output(output)
    if status == 0:
        print(f"\n{AGAIN}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
