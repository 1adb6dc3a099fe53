"""Put together what a terminal's look asks for; in the link's thread, while the program runs or hangs."""

from __future__ import annotations

from dbg_agent.evidence.code import code_parts, code_seen
from dbg_agent.evidence.collectives import collectives_seen
from dbg_agent.evidence.process import process_seen
from dbg_agent.evidence.threads import threads_seen
from dbg_wire.messages import Look
from dbg_wire.records.evidence import EvidenceRecord, ProcessSeen, fitting


def evidence_of(look: Look, *, halted: int | None, is_still: bool = False) -> tuple[EvidenceRecord, ...]:
    """Return the rows of an answer to this look; ``halted`` is the thread that stands in a stop, if one does.

    ``is_still`` says that the program waits since an earlier look, so that a longer look stops nothing.
    No exception of the program's objects comes out: what can't be read is said in a SourceSeen, or left out.
    """
    records: list[EvidenceRecord] = [*collectives_seen(is_still=is_still)]
    if look in (Look.EVIDENCE, Look.CODE):
        records += [*threads_seen(halted), process_seen(), code_seen()]
    if look is Look.CODE:
        records += code_parts()
    # A rank that has nothing to tell says so.
    return fitting(records or [ProcessSeen()])
