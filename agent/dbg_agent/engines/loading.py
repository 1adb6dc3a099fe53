"""Loading of a debugger when it is first opened."""

from __future__ import annotations

from dbg_agent.engines.console import Console
from dbg_agent.engines.engine import Engine
from dbg_agent.engines.port import Port
from dbg_wire.tables.engines import PDB


def load(name: str, port: Port, console: Console, *, reads_rc: bool) -> Engine:
    """Import and build the debugger of that name. Errors of the import are not caught.

    pdb uses ``console`` and, if it ``reads_rc``, reads the ``.pdbrc`` files of the rank's host. PuDB ignores both.
    """
    if name == PDB:
        from dbg_agent.engines.pdb import PdbEngine

        return PdbEngine(port, console, reads_rc=reads_rc)
    from dbg_agent.engines.pudb import build

    return build(port)
