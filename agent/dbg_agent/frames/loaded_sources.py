"""The sources of the program as they were loaded, which an editor may have changed since.

A debugger shows the lines that the rank runs: they are read when it stops, kept, and put into ``linecache`` while it is
stopped. Comparing a file's code with the running code tells whether the file was edited between import and stop.
"""

from __future__ import annotations

import linecache
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import CodeType, FrameType, FunctionType, ModuleType

from dbg_agent.frames.stacks import outward, place_of
from dbg_agent.process.imports import compiled
from dbg_agent.process.threads import own_thread
from dbg_wire.limits import SOURCE_LINES
from dbg_wire.messages import Source
from dbg_wire.records.record import fitted

compiled_sources: dict[str, bytes] = {}
"""The sources by the absolute paths of their files. A thread that writes here never removes anything."""

MAX_FILES = 2000
MAX_FILE_BYTES = 4_000_000
"""Files that are kept, and bytes of each. A program beside large libraries that are installed as editable has about a
thousand; of more, those that were loaded last are kept, as a program loads its libraries first."""

STARTUP_SECONDS = 0.03
"""Seconds in which a process has loaded nothing of its program yet; the kernel gives its start in hundredths."""

_LIBRARIES = ("/site-packages/", "/dist-packages/", os.path.dirname(os.__file__) + "/")  # noqa: PTH120 - no pathlib
"""Parts of paths of files that users don't edit while they debug."""


_class_dict = type.__dict__["__dict__"].__get__


class _LoadedText:
    """A version of a file's text."""

    def __init__(self, source: bytes, changed: float) -> None:
        self.lines = lines_of(source)
        self.changed = changed
        self._source = source
        self._codes: dict[tuple[str, int], list[CodeType]] | None = None

    def holds(self, code: CodeType) -> bool:
        """Tell whether this text compiles to that code."""
        if self._codes is None:
            self._codes = {}
            with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                for one in all_codes(compiled(self._source, code.co_filename)):
                    self._codes.setdefault((one.co_name, one.co_firstlineno), []).append(one)
        return any(_is_same(code, one) for one in self._codes.get((code.co_name, code.co_firstlineno), ()))


class Loaded:
    """The sources of this process; methods run in the stopped thread."""

    def __init__(self) -> None:
        self._texts: dict[str, _LoadedText] = {}
        """Texts that were read at a stop."""
        self._loaded: dict[str, _LoadedText] = {}
        """Texts that are known to be the loaded ones."""
        self._unknown: set[str] = set()
        """Files whose loaded text was not found at this stop."""
        self._seen: set[str] = set()
        self._running: dict[str, set[CodeType]] = {}
        self._pinned: dict[str, tuple[int, None, list[str], str]] = {}
        self._looked_at = 0
        """Number of texts when they were last put into ``linecache``."""
        self._started = process_started()

    def read(self) -> None:
        """Begin to read the program's own files that were not read at an earlier stop.

        A thread of its own reads them and no thread waits for it, since a file system may hang.
        """
        known = dict(compiled_sources)  # other threads add to it
        for path, source in known.items():
            # The text was compiled here, so it is known to be the loaded one.
            self._loaded.setdefault(path, _LoadedText(source, 0.0))
        self._seen.update(known)
        new = [path for path in _own_files() if path not in self._seen][: max(0, MAX_FILES - len(self._seen))]
        if new:
            self._seen.update(new)
            with suppress(RuntimeError):
                own_thread(partial(self.read_all, new), "dbg-agent-sources").start()

    def read_all(self, paths: list[str]) -> None:
        """Keep the present texts of these files; blocks while their file system does."""
        for path in paths:
            text = _read(path)
            if text is not None:
                self._texts.setdefault(path, text)

    def show(self, frame: FrameType | None) -> list[str]:
        """Make debuggers see the text that runs in this frame and its callers; return files whose text is unknown."""
        for one in outward(frame):
            path = one.f_code.co_filename
            if one is frame or not _is_library(path):
                self._running.setdefault(path, set()).add(one.f_code)
        self._pin_all()
        return [path for path in self._running if path in self._unknown and _is_there(path)]

    def show_more(self) -> None:
        """Make debuggers see texts that were read since :meth:`show`: reading goes on while a debugger is open."""
        if len(self._texts) != self._looked_at:
            self._pin_all()

    def lines(self, path: str, codes: Iterable[CodeType]) -> list[str] | None:
        """Return the lines of a file as they were loaded; None if they are unknown. ``codes`` of the file run."""
        running = set(codes)
        if running - self._running.get(path, set()):
            self._running.setdefault(path, set()).update(running)
        text = self._text(path)
        return text.lines if text is not None else None

    def forget(self) -> None:
        """Remove our texts from ``linecache``, so that all code sees the files as they are; the stop is over."""
        for path, entry in self._pinned.items():
            if linecache.cache.get(path) is entry:
                del linecache.cache[path]
        self._pinned.clear()
        self._running.clear()
        self._unknown.clear()

    def _pin_all(self) -> None:
        read = list(self._texts)
        self._looked_at = len(read)
        for path in (*self._running, *read, *self._loaded):
            text = self._text(path) if path not in self._pinned else None
            if text is not None:
                self._pin(path, text)

    def _pin(self, path: str, text: _LoadedText) -> None:
        # `checkcache` keeps an entry that has no time, as the entry of a loader's source.
        entry = (0, None, text.lines, path)
        linecache.cache[path] = self._pinned[path] = entry

    def _text(self, path: str) -> _LoadedText | None:
        """Return the source that was loaded from this file; None if it is unknown."""
        if path in self._loaded or path in self._unknown:
            return self._loaded.get(path)
        for find in (self._texts.get, _read, _cached):
            text = find(path)
            if text is not None and self._is_loaded(text, path):
                self._loaded[path] = text
                return text
        self._unknown.add(path)
        return None

    def _is_loaded(self, text: _LoadedText, path: str) -> bool:
        # A text older than the process is the loaded one, even if an import hook has compiled a changed text.
        if text.changed < self._started + STARTUP_SECONDS:
            return True
        return all(text.holds(code) for code in (*self._running.get(path, ()), *_functions_of(path)))


def is_edited(path: str, source: bytes) -> bool:
    """Tell whether the loaded functions of a file are not those of this text; compiling it takes its time."""
    text = _LoadedText(source, 0.0)
    return not all(text.holds(code) for code in _functions_of(path))


def lines_of(source: bytes) -> list[str]:
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError):
        text = source.decode("utf-8", "replace")
    return io.StringIO(text.removeprefix("\ufeff"), newline=None).readlines()


def read_file(path: str, most: int = MAX_FILE_BYTES) -> tuple[bytes, os.stat_result] | None:
    """Return a file's content and status; None if it can't be read, or is longer than ``most`` bytes."""
    try:
        # O_NONBLOCK: open() of a pipe must not wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            status = os.fstat(file.fileno())
            content = file.read(most + 1)
    except (OSError, ValueError):
        return None
    return (content, status) if len(content) <= most else None


def _read(path: str) -> _LoadedText | None:
    found = read_file(path)
    return _LoadedText(found[0], max(found[1].st_mtime, found[1].st_ctime)) if found is not None else None


def _cached(path: str) -> _LoadedText | None:
    """Return the text that ``linecache`` has kept of a file; it may be older than the file."""
    entry = linecache.cache.get(path)
    if entry is None or len(entry) == 1:
        return None
    return _LoadedText("".join(entry[2]).encode("utf-8", "surrogatepass"), float("inf"))


def _own_files() -> Iterator[str]:
    for module in list(sys.modules.values())[::-1]:
        path = file_of(module)
        if path is not None and not _is_library(path):
            yield path


def file_of(module: object) -> str | None:
    """Return the source file of a loaded module, None if it has none."""
    # getattr would run the code of a lazy module.
    path = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    return path if isinstance(path, str) and path.endswith(".py") else None


def _is_library(path: str) -> bool:
    return any(part in path for part in _LIBRARIES)


def _is_there(path: str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - pathlib would be loaded into every rank


def _functions_of(path: str) -> Iterator[CodeType]:
    """Yield the code of the functions and methods that modules of this file hold."""
    for module in list(sys.modules.values()):
        if file_of(module) != path:
            continue
        for value in list(vars(module).values()):
            # `vars` and `isinstance` would run the code of a class's own metaclass, or of an object that is a proxy.
            members = list(_class_dict(value).values()) if issubclass(type(value), type) else [value]
            for member in members:
                if type(member) is FunctionType and member.__code__.co_filename == path:
                    yield member.__code__


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and the codes that are compiled within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_codes(constant)


def _is_same(code: CodeType, other: CodeType) -> bool:
    # Not all Python releases compare the line tables of codes.
    return code == other and list(code.co_lines()) == list(other.co_lines())


def process_started() -> float:
    """Return when this process began, in seconds since the epoch; the present time if the kernel doesn't tell."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.time()


def source_message(frame: FrameType, breaks: Mapping[str, Sequence[int]]) -> Source:
    """Return the source around a frame's line; without lines if there is no source."""
    where = place_of(frame)
    lines = linecache.getlines(where.file, frame.f_globals)
    first = max(1, where.line - SOURCE_LINES)
    shown = lines[first - 1 : where.line + SOURCE_LINES]
    marked = breaks.get(os.path.normcase(os.path.abspath(where.file)), ())  # noqa: PTH100 - as bdb names files
    return fitted(
        Source,
        where=where,
        first=first,
        lines=tuple(line.rstrip("\n") for line in shown),
        breakpoints=tuple(line for line in sorted(marked) if first <= line < first + len(shown)),
    )
