"""A job with one rank that stops at a line, while the others wait for it at the same line, outside any collective."""

from __future__ import annotations

import os

from dbg_agent import set_trace

RANK = int(os.environ["RANK"])


def main() -> None:
    """Train, and stop rank 3 in step 1."""
    total = 0
    for step in range(3):
        total += step * RANK
        if step == 1:
            set_trace(ranks=3)
    print(f"rank {RANK}: {total}", flush=True)


if __name__ == "__main__":
    main()
