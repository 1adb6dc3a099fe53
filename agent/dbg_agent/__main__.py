"""Run a script or module as a rank: ``python -m dbg_agent train.py ARGS…``.

This module holds nothing else, since its namespace, as that of ``__main__``, becomes the program's.
"""

import sys

from dbg_agent.program.script import main

if __name__ == "__main__":
    main(sys.argv[1:])
