"""Dumps of a flight recorder in the form in which torch writes them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

DUMPS = Path(__file__).with_name("dumps")
"""Dumps of real jobs: two ranks with gloo, of which the other one has not come to the last all_reduce."""


def raw(number: int, name: str, *, group: str = "0", state: str = "scheduled", **more: Any) -> dict[str, Any]:
    """Return an entry with the keys of torch's FlightRecorderDetail.hpp; ``more`` replaces some."""
    return {
        "collective_seq_id": number,
        "input_dtypes": ["Float"],
        "input_sizes": [[4]],
        "is_p2p": False,
        "op_id": number,
        "p2p_seq_id": 0,
        "pg_id": 0,
        "process_group": [group, "default_pg"],
        "profiling_name": name,
        "record_id": number,
        "retired": False,
        "state": state,
        "time_created_ns": 1_000_000_000 + number,
        "timeout_ms": 600000,
        **more,
    }


def dump(*entries: dict[str, Any], enqueued: int = 0, completed: int = 0) -> bytes:
    """Return a dump as JSON, written as torch writes it."""
    status = {"0": {"last_enqueued_collective": str(enqueued), "last_completed_collective": str(completed)}}
    document = {"entries": list(entries), "pg_status": status if enqueued else {}, "version": "2.10"}
    if not entries:
        del document["entries"]
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def pickled(*entries: dict[str, Any]) -> bytes:
    """Return a dump as torch 2.4 makes it: a pickle in which the name of a group is a tuple."""
    plain = [entry | {"process_group": tuple(entry["process_group"])} for entry in entries]
    return pickle.dumps({"version": "2.1", "pg_config": {}, "entries": plain}, protocol=2)
