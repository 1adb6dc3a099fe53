"""Files of recorded numbers: finds the files of a run, and reads and writes the steps of a rank. Blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

from dbg_dial.find import open_at_once
from dbg_wire.errors import printable
from dbg_wire.numbers.rows import FILE, MAGIC, OLD, FrameEncoder, NotNumbers, StepNumbers, read_steps

_FILE = re.compile(r"rank-([0-9]{5,9})\.numbers")


def files_of(run: str) -> dict[int, str]:
    """Return the files of a run by rank, from its directory or from a single file. Raises NotNumbers."""
    try:
        paths = list(Path(run).iterdir()) if Path(run).is_dir() else [Path(run)]
    except (OSError, ValueError) as error:
        raise NotNumbers(f"{printable(run)} can't be read ({error})") from None
    found = {int(match[1]): str(path) for path in paths if (match := _FILE.fullmatch(path.name))}
    if not found:
        raise NotNumbers(f"{printable(run)} has no file such as rank-00000.numbers; `run --numbers DIR` writes them")
    return found


def steps_of(run: str, rank: int) -> Iterator[StepNumbers]:
    """Yield the steps of a rank, those of the older file of a ring first. Raises NotNumbers."""
    path = files_of(run).get(rank)
    if path is None:
        raise NotNumbers(f"{printable(run)} has no numbers of rank {rank}")
    for part in filter(lambda part: Path(part).exists(), (path + OLD, path)):
        try:
            with open_at_once(part) as file:
                yield from read_steps(file)
        except (OSError, NotNumbers) as error:
            raise NotNumbers(f"{printable(part)} can't be read: {error}") from None


def writer_of(run: str, rank: int, last: int) -> Generator[None, StepNumbers, None]:
    """Write the numbers of each step that is sent after the first ``next``. Raises OSError.

    With ``last``, two files take turns, each with so many steps. A forked process writes nothing, because the file is
    its parent's.
    """
    numbers = yield
    process = os.getpid()
    path = Path(run, FILE.format(rank))
    old = Path(f"{path}{OLD}")
    path.parent.mkdir(parents=True, exist_ok=True)
    old.unlink(missing_ok=True)
    while True:
        encoder = FrameEncoder()
        with path.open("wb") as file:
            file.write(MAGIC)
            for _ in range(last) if last else count():
                if os.getpid() == process:
                    file.write(encoder.encode(numbers))
                    file.flush()
                numbers = yield
        path.replace(old)
