"""Run a script or module as a rank: ``python -m dbg_agent train.py ARGS…``.

Nothing else is in here: this module's namespace becomes the program's, as that of ``__main__``.
"""

import sys

from dbg_agent.program.script import main

if __name__ == "__main__":
    main(sys.argv[1:])
