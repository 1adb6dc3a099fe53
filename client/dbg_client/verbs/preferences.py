"""The user's preferences: what variables and ``config.toml`` say, and which of them applies. Pure.

An option applies first, then a variable, then the file, then the default. The escape key and the debugger are read
here, too.
"""

from __future__ import annotations

import math
import os
import posixpath
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from dbg_command.alike import nearest
from dbg_dial.find import apart
from dbg_dial.home import ENGINE
from dbg_wire.errors import BadInput, printable
from dbg_wire.tables.engines import ENGINES, PDB, PUDB

COMMON_NAMES = {PUDB: "PuDB", PDB: "pdb"}

DEFAULT_PREFIX = b"\x1d"
"""Ctrl-]: telnet's key, which neither PuDB nor a terminal multiplexer binds."""

DEFAULT_TIMEOUT = 10.0
"""Seconds to wait for the broker and for answers of ranks: a busy login node needs a few, a person gives up after."""

FILE_NAME = "config.toml"

EDITING = ("emacs", "vi")

COLORS = ("auto", "never", "always")


@dataclass(frozen=True, slots=True)
class Wish:
    """The debugger that the user asked for, and the one to open where neither stop nor rank has a wish."""

    asked: str | None = None
    default: str | None = None


NO_WISH = Wish()


def read_engine(text: str) -> str:
    """Return the debugger that a preference names. Raise BadInput for one that we don't have."""
    if text not in ENGINES:
        raise BadInput(f"{ENGINE} {printable(text)!r} is no debugger of ours", f"take {' or '.join(ENGINES)}")
    return text


_OWNED = {
    0x03: "the debugger needs it to interrupt",
    0x04: "it means end of input to pdb and page down to PuDB",
    0x08: "it is Backspace",
    0x09: "it is Tab",
    0x0A: "it is Enter",
    0x0D: "it is Enter",
    0x11: "it is flow control",
    0x13: "it is flow control",
    0x1A: "it suspends programs",
    0x1B: "it is Esc, with which every arrow and function key begins",
    0x7F: "it is Backspace",
}


def parse_escape_key(text: str) -> bytes | None:
    """Read an escape key as users write it: ``^]``, ``C-]``, ``ctrl-]``, the control character itself, or ``none``.

    Return the byte that the key sends, or None for no escape key. Raise BadInput for anything else, and for keys
    which the debugger or the terminal needs, saying why.
    """
    if text.lower() == "none":
        return None
    code = _control_code(text)
    if code is None:
        raise BadInput(
            f"escape key '{printable(text)}' is not a control key",
            "write it as ^], ^\\, C-] or ctrl-], or none for no escape key",
        )
    if code in _OWNED:
        raise BadInput(
            f"escape key '{printable(text)}' can't be used, {_OWNED[code]}", "take another one, such as ^] or ^\\"
        )
    return bytes([code])


def _control_code(text: str) -> int | None:
    if len(text) == 1:
        return ord(text) if ord(text) < 0x20 or text == "\x7f" else None
    match = re.fullmatch(r"(?:\^|C-|ctrl-)([?-_a-z])", text, re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    return ord(match[1].upper()) ^ 0x40


def key_name(prefix: bytes) -> str:
    """Return what a user presses for the byte ``prefix``, as ``Ctrl-]``."""
    return f"Ctrl-{chr(prefix[0] ^ 0x40)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """Describe one setting: its key in the file, the option and the variables that go before it, and its default.

    ``check`` raises BadInput or ValueError for a text that can't be its value. ``takes`` says what can.
    ``late_variables`` are those that the file goes before. With ``empty_counts`` an empty variable is a value, too.
    """

    key: str
    help: str
    default: str
    takes: str
    check: Callable[[str], object]
    option: str | None = None
    variables: tuple[str, ...] = ()
    late_variables: tuple[str, ...] = ()
    empty_counts: bool = False


def _one_of(*values: str) -> Callable[[str], object]:
    return values.index


def _check_timeout(text: str) -> None:
    if not 0 < float(text) < math.inf:
        raise ValueError(text)


PREFERENCES = {
    each.key: each
    for each in (
        Preference(
            key="escape",
            help="the prefix key of a session",
            default="^]",
            takes='a control key such as "^]" or "^\\\\", or "none"',
            check=parse_escape_key,
            option="--escape",
            variables=("DBG_ESCAPE",),
        ),
        Preference(
            key="engine",
            help="the debugger that opens where the rank has no wish of its own",
            default=PUDB,
            takes=" or ".join(f'"{engine}"' for engine in ENGINES),
            check=_one_of(*ENGINES),
            option="--engine",
            variables=(ENGINE,),
        ),
        Preference(
            key="editing",
            help="the keys at pdb's prompt",
            default="emacs",
            takes='"emacs" or "vi"',
            check=_one_of(*EDITING),
            option="--vi",
            variables=("DBG_EDITING",),
        ),
        Preference(
            key="colors",
            help="colours of answers: auto is for terminals alone",
            default="auto",
            takes='"auto", "never" or "always"',
            check=_one_of(*COLORS),
            variables=("NO_COLOR",),
        ),
        Preference(
            key="timeout",
            help="seconds to wait for the broker and for answers",
            default=f"{DEFAULT_TIMEOUT:g}",
            takes="a number of seconds such as 10",
            check=_check_timeout,
            option="--timeout",
            variables=("DBG_TIMEOUT",),
        ),
        Preference(
            key="pager",
            help="the command that shows long answers",
            default="less",
            takes='a command such as "less -S", or "" for none',
            check=str,
            empty_counts=True,
            variables=("DBG_PAGER",),
            late_variables=("PAGER",),
        ),
    )
}
"""All settings that the file may have, by their keys; a new one is a row here."""


@dataclass(frozen=True, slots=True)
class Config:
    """Hold what the file at ``path`` says: good ``values`` as text, and a sentence for each bad one by its key.

    The key of a sentence on the file as a whole is "".
    """

    path: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, BadInput] = field(default_factory=dict)

    def require(self, key: str) -> str | None:
        """Return the value of a key, None if the file has none. Raise BadInput if it has a bad one."""
        if problem := self.problems.get(key) or self.problems.get(""):
            raise problem
        return self.values.get(key)


NO_CONFIG = Config()


def config_path(environ: Mapping[str, str]) -> str | None:
    """Return where the file is: under $XDG_CONFIG_HOME, else ~/.config; None if nothing names a home."""
    config, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    if posixpath.isabs(config):
        return posixpath.join(config, "dbg-broker", FILE_NAME)
    return posixpath.join(home, ".config", "dbg-broker", FILE_NAME) if posixpath.isabs(home) else None


def read_values(document: Mapping[str, object], path: str) -> Config:
    """Return what a file's document says; what is wrong with a key is kept with it."""
    values: dict[str, str] = {}
    problems: dict[str, BadInput] = {}
    for key, value in document.items():
        try:
            values[key] = _value(key, value, path)
        except BadInput as error:
            problems[key] = error
    return Config(path, values, problems)


def preferred(key: str, environ: Mapping[str, str], config: Config, *, strict: bool = False) -> str | None:
    """Return the value of variables or file, None for neither. With ``strict`` raise BadInput for a bad file."""
    row = PREFERENCES[key]
    for name in row.variables:
        if (text := environ.get(name)) or (text is not None and row.empty_counts):
            return "never" if name == "NO_COLOR" else text
    told = config.require(key) if strict else config.values.get(key)
    late = (environ.get(name) for name in row.late_variables)
    usable = (text for text in late if text or (text is not None and row.empty_counts))
    return told if told is not None else next(usable, None)


def _value(key: str, value: object, path: str) -> str:
    row, file = PREFERENCES.get(key), printable(path)
    if row is None:
        meant = nearest(key, PREFERENCES)
        remedy = f"did you mean `{meant}`?" if meant is not None else f"take {', '.join(PREFERENCES)}"
        raise BadInput(f"{file} has an unknown key `{printable(key)}`", remedy)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not isinstance(value, str) and not (is_number and key == "timeout"):
        raise BadInput(f"{file} has no good value for `{key}`", f"give it {row.takes}")
    text = str(value)
    try:
        row.check(text)
    except BadInput as error:
        raise BadInput(f"{file}, `{key}`: {error.what}", error.remedy) from None
    except ValueError:
        raise BadInput(f"{file}, `{key}`: {printable(text)!r} can't be used", f"give it {row.takes}") from None
    return text


MAX_BYTES = 64 * 1024
"""Bytes of the file that are read: it has a handful of keys."""


def read_config(environ: Mapping[str, str]) -> Config:
    """Return what the file says; a file that is not there says nothing, and one that is bad says what is wrong.

    Blocks for a small file. Raises SilentFile if its file system does not answer.
    """
    path = config_path(environ)
    if path is None:
        return Config()
    try:
        data = apart(path, partial(_read, path))
        return Config(path) if data is None else read_values(_parse(data, path), path)
    except BadInput as error:
        return Config(path, problems={"": error})


def _read(path: str) -> bytes | None:
    """Return the file's bytes, None if there is no file. Raise BadInput if it can't be read or is somebody else's."""
    shown = printable(path)
    try:
        # A pipe in its place would hold up every command.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadInput(f"{shown} is no regular file", "put the settings into one")
            # Its pager is a command that runs as this user.
            if found.st_uid not in (os.getuid(), 0) or found.st_mode & stat.S_IWOTH:
                raise BadInput(f"{shown} can be written by others", "make it your own, and `chmod o-w` it")
            return file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        remedy = "make it readable, or take it away"
        raise BadInput(f"{shown} can't be read ({error.strerror or type(error).__name__})", remedy) from None


def _parse(data: bytes, path: str) -> dict[str, object]:
    import tomllib

    try:
        document: dict[str, object] = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        # tomllib has errors of its own for neither too long a number nor too deep a list.
        raise BadInput(
            f"{printable(path)} is no TOML: {printable(str(error))}", 'write lines such as engine = "pdb"'
        ) from None
    return document
