"""Files of recorded numbers: finds the ranks of a run, and reads and writes the steps of a rank. Blocks."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

from dbg_dial.find import open_at_once
from dbg_wire.errors import printable
from dbg_wire.numbers.rows import INVALID, NotNumbers, StepNumbers, WatchedTensor, encode_step, read_steps
from dbg_wire.records.record import refusal


def ranks_of(run: str) -> list[int]:
    """Return the ranks that have a file in the directory of a run. Raises NotNumbers if there is none."""
    numbers = [path.stem.removeprefix("rank-") for path in Path(run).glob("rank-*.numbers")]
    ranks = [int(number) for number in numbers if number.isdecimal()]
    if not ranks:
        raise NotNumbers(f"{printable(run)} has no file such as rank-00000.numbers; `run --numbers DIR` writes them")
    return ranks


def steps_of(run: str, rank: int) -> Iterator[StepNumbers]:
    """Yield the steps of a rank, those of the older file of a ring first. Raises NotNumbers."""
    path, old = _paths(run, rank)
    for part in (old, path) if old.exists() else (path,):
        try:
            with open_at_once(str(part)) as file:
                yield from read_steps(file)
        except (OSError, *INVALID) as error:
            raise NotNumbers(f"{printable(str(part))} can't be read{refusal(error)}") from None


def writer_of(run: str, rank: int, last: int) -> Generator[None, StepNumbers, None]:
    """Write the numbers of each step that is sent after the first ``next``. Raises OSError.

    With ``last``, two files take turns, each with so many steps.
    """
    numbers = yield
    path, old = _paths(run, rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    old.unlink(missing_ok=True)
    while True:
        indices: dict[WatchedTensor, int] = {}
        with path.open("wb") as file:
            for _ in range(last) if last else count():
                file.write(encode_step(numbers, indices))
                file.flush()
                numbers = yield
        path.replace(old)


def _paths(run: str, rank: int) -> tuple[Path, Path]:
    path = Path(run, f"rank-{rank:05}.numbers")
    return path, path.with_suffix(".old")
