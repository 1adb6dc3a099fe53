"""``numbers A B``: compares the recorded numbers of two runs. No broker is used."""

from __future__ import annotations

from collections.abc import Iterator

from dbg_client.numbers.answer import FOUND_STATUS
from dbg_client.shell.streams import write_result
from dbg_client.verbs.verb import PARTIAL
from dbg_dial.number_files import ranks_of, steps_of
from dbg_wire.numbers.compare import TwoRuns, compare_runs
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.record import encode_record


def show_two_runs(first: str, second: str, *, exact: bool, as_json: bool) -> int:
    """Compare the runs in two directories, print the result, and return the exit status.

    Blocks. Raises NotNumbers and OutputError.
    """
    runs = [{rank: steps_of(run, rank) for rank in ranks_of(run)} for run in (first, second)]
    found = compare_runs(*runs, exact=exact)
    write_result(encode_record(found) + "\n" if as_json else "".join(f"{line}\n" for line in _lines(found)))
    if not found.tensors:
        return PARTIAL
    return 0 if found.difference is None else FOUND_STATUS


def _lines(found: TwoRuns) -> Iterator[str]:
    if found.difference is not None:
        yield f"rank {format_ranks(found.ranks)}, {found.difference.text}"
    elif found.tensors:
        yield "no number differs by more than rounding"
    yield f"compared {found.tensors:,} tensors of rank {format_ranks(found.compared)}; {found.unmatched:,} unmatched"
