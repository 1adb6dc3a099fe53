"""A job of which one rank is stopped at a line, while the others wait for it there, outside of any collective."""

from __future__ import annotations

import os

from dbg_agent import set_trace

RANK = int(os.environ["RANK"])


def main() -> None:
    """Train, and stop rank 3 on the way."""
    total = 0
    for step in range(3):
        total += step * RANK
        if step == 1:
            set_trace(ranks=3)
    print(f"rank {RANK}: {total}", flush=True)


if __name__ == "__main__":
    main()
