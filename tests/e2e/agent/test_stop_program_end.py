"""Frames of a program's end, in hooks and finalizers, are told from those of the program: no rank stops there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.time_unit import seconds

HEAD = """\
import atexit, functools, multiprocessing, os, sys, threading
from dbg_agent.stop.stacks import is_at_end
def tell(*_arguments):
    print(is_at_end(sys._getframe()), flush=True)
class Hook:
    def __call__(self, *_arguments): tell()
    def method(self, *_arguments): tell()
def inner():
    tell()
tell(); inner()
"""


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("sys.excepthook = tell; 1 / 0", [False, False, True]),
        ("sys.excepthook = lambda *_: inner(); 1 / 0", [False, False, True]),
        ("sys.excepthook = Hook(); 1 / 0", [False, False, True]),
        ("sys.excepthook = Hook().method; 1 / 0", [False, False, True]),
        ("sys.excepthook = functools.partial(tell, 1); 1 / 0", [False, False, True]),
        ("atexit.register(tell)", [False, False, True]),
        ("atexit.register(inner); sys.exit(3)", [False, False, True]),
        ("threading._register_atexit(inner)", [False, False, True]),
        ("keeps = type('Keeps', (), {'__del__': tell})(); sys.modules['keeps'] = keeps", [False, False, True]),
        ("try: 1 / 0\nexcept ZeroDivisionError: tell()", [False, False, False]),
        ("os.fork() or inner(); os.wait() if 0 else None", [False, False, False]),
        (
            "multiprocessing.util.Finalize(None, tell, exitpriority=1) if multiprocessing.util else 0",
            [False, False, True],
        ),
    ],
)
def test_a_frame_of_the_end_is_known(program: str, told: list[bool]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", f"{HEAD}import multiprocessing.util\n{program}\n"],
        capture_output=True,
        text=True,
        timeout=seconds(30),
        check=False,
    )
    assert result.stdout.split() == [str(one) for one in told], result.stderr
