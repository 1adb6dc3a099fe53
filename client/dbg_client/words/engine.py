"""Which debugger a terminal asks for, and what people call each. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire.tables.engines import PDB, PUDB

COMMON_NAMES = {PUDB: "PuDB", PDB: "pdb"}


@dataclass(frozen=True, slots=True)
class Wish:
    """The debugger that the user asked for, and the one to open where neither stop nor rank has a wish."""

    asked: str | None = None
    default: str | None = None


NO_WISH = Wish()
