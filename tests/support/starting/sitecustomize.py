"""Imported by an interpreter while it starts: here a fork server of scripts serves, and its forks leave the import.

A fork then goes on as the interpreter of its script: no frame of ours is below the script's, and its exit status, its
end and its traceback are those of a start. The file has a folder of its own since that folder is on the server's path.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# In place of this folder. The server's module takes it away again.
sys.path[0] = str(Path(__file__).parents[3])
from tests.support import fork_server  # noqa: E402 - found through the line above

try:
    fork_server.serve(int(sys.argv[1]), "scripts")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
except BaseException:
    # Whatever is raised here would be passed over, and the interpreter would run its script.
    sys.excepthook(*sys.exc_info())
    os._exit(1)
