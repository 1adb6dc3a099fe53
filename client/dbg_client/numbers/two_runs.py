"""``numbers A B``: compares the recorded numbers of two runs. No broker is used."""

from __future__ import annotations

from collections.abc import Iterator

from dbg_client.shell.streams import write_result
from dbg_dial.number_files import files_of, steps_of
from dbg_wire.errors import first_of
from dbg_wire.numbers.compare import TwoRuns, compare_runs
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.record import encode_record

EQUAL, DIFFERENT, INCOMPARABLE = 0, 1, 6
"""Exit statuses."""


def show_two_runs(first: str, second: str, *, exact: bool, as_json: bool) -> int:
    """Compare two runs, each a directory or a file, print the result, and return the exit status.

    Blocks. Raises NotNumbers and OutputError.
    """
    runs = [{rank: steps_of(run, rank) for rank in files_of(run)} for run in (first, second)]
    found = compare_runs(*runs, exact=exact)
    write_result(encode_record(found) + "\n" if as_json else "".join(f"{line}\n" for line in _lines(found)))
    if not found.numbers:
        return INCOMPARABLE
    return EQUAL if found.difference is None else DIFFERENT


def _lines(found: TwoRuns) -> Iterator[str]:
    if not found.numbers:
        yield "A and B have no step and tensor of the same rank in common"
        return
    agree = f"all numbers agree within rounding (largest difference {found.largest:.1g})"
    if found.difference is not None:
        is_first = found.difference.step == found.steps[0]
        until = "no earlier step can be compared" if is_first else f"until then {agree}"
        agree = f"rank {format_ranks(found.ranks)}, {found.difference.text}; {until}"
    yield agree
    steps = " to ".join(map(str, found.steps))
    yield f"compared {found.numbers:,} tensors of rank {format_ranks(found.compared)} in step {steps}"
    for run, names in (("A", found.first_only), ("B", found.second_only)):
        if names:
            shown = first_of([name or "the model" for name in names])
            yield f"only in {run}, or of another shape there: {shown}"
