"""Source files of the program, and detection of edits since the rank loaded them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType

from dbg_agent.frames.stacks import outward
from dbg_agent.host.proc import TICKS, stat_of, word_at
from dbg_agent.process.imports import compiled

MAX_FILE_BYTES = 4_000_000
"""Maximum size of a file that is read, in bytes."""

STARTUP_SECONDS = 0.03
"""Tolerance for comparing a file's time with the start of the process, in seconds. It is needed because the kernel
rounds that start to 0.01 s. It is harmless because no process loads a file of its program within this time."""

_LIBRARIES = ("/site-packages/", "/dist-packages/", os.path.dirname(os.__file__) + "/")  # noqa: PTH120 - no pathlib
"""Parts of the paths of libraries, whose files users don't edit while they debug."""

_class_dict = type.__dict__["__dict__"].__get__


def edited_files(frame: FrameType | None) -> list[str]:
    """Return the files of this frame and its callers that were edited after they were loaded."""
    running: dict[str, set[CodeType]] = {}
    for one in outward(frame):
        path = one.f_code.co_filename
        if one is frame or not any(part in path for part in _LIBRARIES):
            running.setdefault(path, set()).add(one.f_code)
    return [path for path, codes in running.items() if is_edited(path, codes)]


def is_edited(path: str, running: Iterable[CodeType]) -> bool:
    """Return True if the file was edited after it was loaded.

    A file older than the process was not edited. A newer file may also have been written before it was loaded, so
    it is compiled, and the result is compared with the code of the loaded functions and with ``running``.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - pathlib would be loaded into every rank
    except (OSError, ValueError):
        return False
    if max(status.st_mtime, status.st_ctime) < process_started() + STARTUP_SECONDS:
        return False
    found = read_file(path)
    if found is None:
        return False
    codes: dict[tuple[str, int], list[CodeType]] = {}
    try:
        for one in all_codes(compiled(found, path)):
            codes.setdefault((one.co_name, one.co_firstlineno), []).append(one)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True

    def is_in_text(code: CodeType) -> bool:
        return any(_is_same(code, one) for one in codes.get((code.co_name, code.co_firstlineno), ()))

    return not all(map(is_in_text, (*running, *functions_of(path))))


def lines_of(source: bytes) -> list[str]:
    """Return the lines of a source, decoded as Python decodes it."""
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError):
        text = source.decode("utf-8", "replace")
    return io.StringIO(text.removeprefix("\ufeff"), newline=None).readlines()


def read_file(path: str, most: int = MAX_FILE_BYTES) -> bytes | None:
    """Return the file's content, or None if it can't be read or is longer than ``most`` bytes."""
    try:
        # O_NONBLOCK: open() of a pipe must not wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            content = file.read(most + 1)
    except (OSError, ValueError):
        return None
    return content if len(content) <= most else None


def file_of(module: object) -> str | None:
    """Return the source file of a loaded module, or None if it has none."""
    # vars(), because getattr() would run the code of a lazy module.
    path = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    return path if isinstance(path, str) and path.endswith(".py") else None


def functions_of(path: str) -> Iterator[CodeType]:
    """Yield the code of the functions and methods in the modules of this file."""
    for module in list(sys.modules.values()):
        if file_of(module) != path:
            continue
        for value in list(vars(module).values()):
            # `vars` and `isinstance` would run the code of a metaclass, or of a proxy object.
            members = list(_class_dict(value).values()) if issubclass(type(value), type) else [value]
            for member in members:
                if type(member) is FunctionType and member.__code__.co_filename == path:
                    yield member.__code__


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code object and all code objects nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_codes(constant)


def _is_same(code: CodeType, other: CodeType) -> bool:
    # In some Python releases, `==` of code objects does not compare their line tables.
    return code == other and list(code.co_lines()) == list(other.co_lines())


def process_started() -> float:
    """Return the start time of this process in seconds since the epoch; the current time if it is unknown."""
    ticks = word_at(stat_of("self")[1], 19)
    return time.time() if ticks is None else time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / TICKS
