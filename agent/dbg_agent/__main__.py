"""Run a script or module as a rank: ``python -m dbg_agent train.py ARGS…``.

This module defines nothing else, because its namespace becomes the program's ``__main__``.
"""

import sys

from dbg_agent.program.script import main

if __name__ == "__main__":
    main(sys.argv[1:])
