"""Measure what ``import dbg_agent`` adds to an interpreter's start: the whole cost for a rank that never stops."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

STARTS = 15


def median_start_ms(source: str) -> float:
    """Return the median time of an interpreter that runs ``source`` and ends, in milliseconds."""
    times = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", source], check=True)
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def main() -> None:
    """Print the two medians and their difference."""
    bare = median_start_ms("pass")
    agent = median_start_ms("import dbg_agent")
    print(f"interpreter {bare:.1f} ms, with `import dbg_agent` {agent:.1f} ms: {agent - bare:+.1f} ms")


if __name__ == "__main__":
    main()
