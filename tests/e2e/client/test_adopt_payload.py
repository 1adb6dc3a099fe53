"""The code that runs in a process, and its answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dbg_client.adopt.inject import Pipe
from dbg_client.adopt.payload import Outcome, code_to_adopt


def test_another_thread_does_not_import_threading_for_the_first_time(tmp_path: Path) -> None:
    pipe = Pipe(str(tmp_path))
    program = (
        "import _thread, sys\nassert 'threading' not in sys.modules\n"
        "done = _thread.allocate_lock()\ndone.acquire()\n"
        f"def work():\n    exec({code_to_adopt(pipe.path, {}, [])!r}, {{}})\n    done.release()\n"
        "_thread.start_new_thread(work, ())\ndone.acquire()\n"
        "print('threading' in sys.modules)\n"
    )
    try:
        ended = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
        answer = pipe.answer(10)
    finally:
        pipe.close()
    assert answer is not None
    if sys.version_info < (3, 13):
        assert (answer.outcome, ended.stdout) == (Outcome.BUSY, "False\n")
    assert not answer.main
