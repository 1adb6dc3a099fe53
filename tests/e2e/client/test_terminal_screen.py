from __future__ import annotations

import subprocess
import sys

import pytest

from tests.unit.client.terminal.test_screen import Terminal, terminal

__all__ = ["terminal"]

LEADER = """
import os, subprocess, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))
reading, writing = os.pipe()
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(reading)], pass_fds=[reading], preexec_fn=os.setpgrp)
os.tcsetpgrp(0, child.pid)
os.write(writing, b"g")
_, status = os.waitpid(child.pid, os.WUNTRACED)
if os.WIFSTOPPED(status):
    print("stopped", flush=True)
    child.kill()
    child.wait()
child.returncode = 0
"""

BACKGROUND = """
import os, sys, termios
from dbg_client.terminal.screen import RawTerminal
os.read(int(sys.argv[1]), 1)
with RawTerminal(0, 0) as owner:
    owner.enter_raw()
    settings = termios.tcgetattr(0)
    os.tcsetpgrp(0, os.getpgid(os.getppid()))
    owner.restore()
    print("untouched" if termios.tcgetattr(0) == settings else "changed", flush=True)
"""

NAMELESS = """
import asyncio, os, sys
from dbg_client.terminal import screen
os.read(int(sys.argv[1]), 1)
def nameless(fd): raise FileNotFoundError
os.ttyname = nameless
loop = asyncio.new_event_loop()
writer = screen.TerminalWriter(0, loop)
writer.write(b"x" * 100_000)
print(writer.buffered > 0, os.get_blocking(writer._fd), os.get_blocking(0), flush=True)
writer.close()
loop.close()
"""


def answer_of_a_job(terminal: Terminal, code: str) -> str:
    """Run ``code`` as the foreground job of a session that has this terminal."""
    return subprocess.run(
        [sys.executable, "-c", LEADER, code],
        stdin=terminal.program,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
        text=True,
        timeout=60,
    ).stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="a session gets its terminal in another way there")
def test_a_background_job_leaves_the_settings_of_the_shell_alone(terminal: Terminal) -> None:
    assert answer_of_a_job(terminal, BACKGROUND) == "untouched"


@pytest.mark.skipif(sys.platform != "linux", reason="a session gets its terminal in another way there")
def test_a_terminal_without_a_name_is_written_without_blocking(terminal: Terminal) -> None:
    assert answer_of_a_job(terminal, NAMELESS) == "True False True"


HANGUPS = """
import asyncio, os, signal, subprocess, sys, threading
from dbg_client.terminal.screen import catch_hangup, release_hangup

came = 0

def note():
    global came
    came += 1

async def main():
    loop = asyncio.get_running_loop()
    catch_hangup(loop, note)
    ended = threading.Event()
    threading.Thread(target=ended.wait).start()
    hang_up = "import os, sys, time\\nwhile True: os.kill(int(sys.argv[1]), 1); time.sleep(0.0001)"
    other = subprocess.Popen([sys.executable, "-c", hang_up, str(os.getpid())])
    while came < 1000:
        catch_hangup(loop, note)
        await asyncio.sleep(0)
        release_hangup(ignores=True)
    other.kill()
    other.wait()
    ended.set()

asyncio.run(main())
os.kill(os.getpid(), signal.SIGHUP)
print("left by itself")
"""


def test_a_second_hangup_is_ignored_in_every_thread() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGUPS], capture_output=True, text=True, timeout=60, check=False)
    # Python itself reports on stderr a signal that arrived while its handler was replaced.
    assert (ended.returncode, ended.stdout) == (0, "left by itself\n"), ended.stderr
