"""What a line debugger is told first: the lines of the user's own ``~/.pdbrc`` and of ``-x FILE``."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_INPUT_PENDING, MAX_TEXT

RC_FILE = ".pdbrc"


class Startup:
    """Hand out the lines once to each process of a rank."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self._lines = tuple(lines)
        self._left: dict[str, deque[str]] = {}

    def for_rank(self, key: str) -> deque[str]:
        """Return the lines that this rank was not told yet; the caller takes out each one that it tells."""
        return self._left.setdefault(key, deque(self._lines))


def read_startup(home: str | None, file: str | None) -> Startup:
    """Return the lines of ``.pdbrc`` in ``home``, if there is one, and then of ``file``.

    Blocks for two small files. Raises BadInput if ``file`` can't be read, or either is no text or too long.
    """
    lines: list[str] = []
    if home is not None and (Path(home) / RC_FILE).is_file():
        lines += _read(Path(home) / RC_FILE, "leave it out with --no-rc")
    if file is not None:
        lines += _read(Path(file), "name another file with -x")
    return Startup(lines)


def commands_of(text: str) -> list[str]:
    """Return the lines that are commands: neither empty nor comments, as pdb reads its own file."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _read(path: Path, remedy: str) -> list[str]:
    shown = printable(str(path))
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_INPUT_PENDING + 1)
    except UnicodeDecodeError:
        raise BadInput(f"{shown} is not UTF-8 text", remedy) from None
    except OSError as error:
        raise BadInput(f"{shown} can't be read ({error.strerror or type(error).__name__})", remedy) from None
    commands = commands_of(text)
    if len(text) > MAX_INPUT_PENDING or any(len(line) > MAX_TEXT for line in commands):
        raise BadInput(f"{shown} is too long; {MAX_INPUT_PENDING:,} characters are the most", remedy)
    return commands
