"""Write to the job's stderr, whatever the program has made of it."""

from __future__ import annotations

import os
import sys


def say(text: str) -> None:
    """Write one line to the job's stderr; never raise, whatever the program made of it."""
    line = f"dbg-agent: {text}\n"
    try:
        stream, own = sys.stderr, sys.__stderr__
        stream.flush()
        if own is not None and stream is own:
            # Past its buffer: what a full disk doesn't take would stay there, and fail the whole job at its exit.
            os.write(own.fileno(), line.encode(own.encoding, "backslashreplace"))
        else:
            stream.write(line)
            stream.flush()
    except Exception:  # noqa: S110 - there is nowhere else to say it, and training must go on
        pass
