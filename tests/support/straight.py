"""A rank to step through: one long function without a branch, so that its line tells how many steps were made."""

from __future__ import annotations

LINES = 400
"""Lines of the function that the tests step through: more than the keys that any test types."""

PRINT_EVERY = 10
"""Steps between two lines in which the rank writes its count to its own stdout, which no terminal shows."""


def counting(upto: int) -> str:
    """Return the lines of a function's body that count, and print the count after each ``PRINT_EVERY`` steps."""
    line = "    print('at', n, flush=True)\n"
    return "".join("    n += 1\n" + (line if n % PRINT_EVERY == 0 else "") for n in range(1, upto + 1))


STRAIGHT = f"""\
from dbg_agent import set_trace
def straight():
    n = 0
    set_trace()
{counting(LINES)}    return n
print("total", straight(), flush=True)
"""

STOP = 4
"""Line of the ``set_trace()`` call; the first step leads to the next one."""
