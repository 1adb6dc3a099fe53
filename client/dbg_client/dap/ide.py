"""What an IDE runs as ``python PATH``: VS Code's ``debugAdapterPath``. The same as ``dbg-attach dap``."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Serve one IDE on stdin and stdout, and return the exit status; words behind the path have no effect."""
    here = Path(__file__).resolve().parent
    # Python puts the folder of a file that it runs first, in which modules have names of ours.
    if sys.path[0] and Path(sys.path[0]).resolve() == here:
        sys.path[0] = str(here.parents[1])
    from dbg_client.command_line.main import main as dbg_attach

    return dbg_attach(["dap"])


if __name__ == "__main__":
    sys.exit(main())
