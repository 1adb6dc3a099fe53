"""faulthandler's dumps, in any pieces, with the rank's own lines between them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dbg_agent.guard.dumps import parse_dump

DUMPS = """\
import faulthandler, sys, threading

def here():
    faulthandler.dump_traceback(file=sys.stdout, all_threads=True)

print(threading.get_ident(), flush=True)
here()
"""


def test_a_real_dump_is_read(tmp_path: Path) -> None:
    # A separate process: faulthandler tells of a hundred threads, and other tests leave threads in this one.
    path = tmp_path / "train.py"
    path.write_text(DUMPS)
    printed = subprocess.run([sys.executable, path], capture_output=True, check=True, text=True).stdout
    ident, _, dump = printed.partition("\n")
    (mine,) = [stack for stack in parse_dump(dump) if stack.thread == int(ident)]
    assert mine.current
    assert (mine.frames[-1].file, mine.frames[-1].function) == (str(path), "here")
