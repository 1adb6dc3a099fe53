"""How a run starts our other programs: the same installation, whatever lies in the user's directory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from dbg_wire.environment import AUTOSTART, STOP_AT, STOP_IN

OWN_VARIABLES = (AUTOSTART, STOP_AT, STOP_IN)
"""Variables that would make a rank of our own processes, where a run is started by a run."""

_START = "import sys; del sys.path[0]; from {module} import main; sys.exit(main())"


def own_command(module: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of one of our programs, in which no file of the user's directory is a module."""
    return [sys.executable, "-c", _START.format(module=module), *arguments]


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for our programs."""
    return {name: value for name, value in environ.items() if name not in OWN_VARIABLES}
