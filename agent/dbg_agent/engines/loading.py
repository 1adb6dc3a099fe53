"""Load a debugger when it is first opened."""

from __future__ import annotations

from dbg_wire.engines import PDB

from .console import Console
from .engine import Engine
from .port import Port


def load(name: str, port: Port, console: Console, *, reads_rc: bool) -> Engine:
    """Import and build the debugger of that name; whatever its import raises comes out.

    pdb talks at ``console``, and reads the ``.pdbrc`` of the rank's side if it ``reads_rc``.
    """
    if name == PDB:
        from .pdb import PdbEngine

        return PdbEngine(port, console, reads_rc=reads_rc)
    from .pudb import build

    return build(port)
