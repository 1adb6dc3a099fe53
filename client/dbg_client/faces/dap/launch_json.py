"""The entry by which VS Code starts the adapter, put into ``.vscode/launch.json``; and what other IDEs need."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from dbg_client.actions.streams import write_result
from dbg_client.faces.dap.messages import USUAL_TARGET
from dbg_dial.files import write_whole
from dbg_wire.errors import BadInput, printable

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|(//[^\n]*|/\*.*?\*/)', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|(,)(?=\s*[\]}])')
"""What VS Code allows beside JSON; texts are matched, too, so that nothing in them counts."""

_LIST = re.compile(r'"configurations"\s*:\s*\[')

MAX_FILE = 1024 * 1024
"""Bytes of a launch.json at most."""

FILE = Path(".vscode/launch.json")

_OTHERS = """\

PyCharm ("Attach to DAP"): run `dbg-attach dap {target} --port 0` and give it the host, port and secret that are shown.

nvim-dap:
    local dap = require('dap')
    dap.adapters.ranks = {{ type = 'executable', command = {command}, args = {{ 'dap' }} }}
    -- Without this nvim-dap lets every rank go on but the first that stops.
    dap.defaults.ranks.auto_continue_if_many_stopped = false
    dap.configurations.python = dap.configurations.python or {{}}
    table.insert(dap.configurations.python,
      {{ type = 'ranks', request = 'attach', name = {name}, target = {lua_target} }})
"""


def read(text: str) -> Any:
    """Return what the text says. Raises ValueError, or RecursionError."""
    return json.loads(_plain(text))


def _plain(text: str) -> str:
    """Return the text as JSON: comments and commas behind a last entry are blanks."""
    for pattern in (_COMMENT, _LAST_COMMA):
        text = pattern.sub(lambda found: found[0] if found[1] is None else " " * len(found[0]), text)
    return text


Entry = dict[str, Any]


def entry_for(target: str) -> Entry:
    """Return the entry that VS Code's own Python extension takes to run this adapter by this Python."""
    return {
        "name": f"Ranks: {target}",
        "type": "debugpy",
        "request": "attach",
        # The extension runs an adapter of its own for `listen`, which these two replace; nothing listens.
        "listen": {"port": 0},
        "debugAdapterPath": str(Path(__file__).parents[2] / "cli/ide.py"),
        "debugAdapterPython": sys.executable,
        "target": target,
    }


def write_entry(target: str | None) -> int:
    """Put the entry into the launch.json of the present folder, say how for others, and return the exit status.

    Raises BadInput, with the entry to put in by hand, for a file that can't be changed without harm.
    """
    target = target or USUAL_TARGET
    entry = entry_for(target)
    before = _content(entry)
    after = with_entry(before, entry)
    if after == before:
        told = f"{FILE} has the entry {printable(entry['name'])!r} already."
    else:
        _replace(after, entry)
        told = f"{FILE} has the new entry {printable(entry['name'])!r}."
    write_result(f"{told}\nIn VS Code choose it in Run and Debug (Ctrl+Shift+D), and press F5.\n{_others(target)}")
    return 0


def with_entry(text: str, entry: Entry) -> str:
    """Return a launch.json with the entry first, all else as it was; unchanged if it has it. Raises BadInput."""
    if not text.strip():
        return json.dumps({"version": "0.2.0", "configurations": [entry]}, indent=4, ensure_ascii=False) + "\n"
    try:
        document = read(text)
        known = document.get("configurations") if isinstance(document, dict) else None
        if not isinstance(known, list):
            raise ValueError(text)
        same = [one for one in known if isinstance(one, dict) and one.get("name") == entry["name"]]
        if same and same[0] != entry:
            raise BadInput(f"{FILE} has another entry {entry['name']!r}", "remove it, or change its name")
        if same:
            return text
        return _inserted(text, entry, {**document, "configurations": [entry, *known]})
    except (ValueError, RecursionError):
        raise _by_hand("is not understood as a list of configurations", entry) from None


def _inserted(text: str, entry: Entry, wanted: Entry) -> str:
    """Return the text with the entry first in its list, so that it says what is wanted. Raises ValueError."""
    ours = textwrap.indent(_shown(entry), " " * 8)
    behind = "," if len(wanted["configurations"]) > 1 else "\n    "
    for found in _LIST.finditer(_plain(text)):
        changed = f"{text[: found.end()]}\n{ours}{behind}{text[found.end() :]}"
        if read(changed) == wanted:
            return changed
    raise ValueError(text)


def _by_hand(problem: str, entry: Entry) -> BadInput:
    return BadInput(f"{FILE} {problem}", f"put this into its list `configurations`:\n{_shown(entry)}")


def _shown(entry: Entry) -> str:
    return json.dumps(entry, indent=4, ensure_ascii=False)


def _others(target: str) -> str:
    # Lua's quotes take what JSON's do, as far as targets have it.
    beside = Path(sys.argv[0])
    command = str(beside.absolute()) if beside.name == "dbg-attach" else "dbg-attach"
    return _OTHERS.format(
        target=target,
        command=json.dumps(command),
        name=json.dumps(f"Ranks: {target}"),
        lua_target=json.dumps(target),
    )


def _content(entry: Entry) -> str:
    try:
        with FILE.open("rb") as opened:
            data = opened.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise _by_hand(f"is longer than {MAX_FILE} bytes", entry)
        return data.decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise _by_hand("is no UTF-8", entry) from None
    except OSError as error:
        raise _by_hand(f"can't be read ({error.strerror})", entry) from None


def _replace(text: str, entry: Entry) -> None:
    """Write the whole file or nothing: VS Code reads it at any time."""
    try:
        FILE.parent.mkdir(exist_ok=True)
        real = FILE.resolve()
        real.touch()  # a new file gets the mode that the user's umask leaves
        write_whole(real, text, mode=real.stat().st_mode & 0o777)
    except OSError as error:
        raise _by_hand(f"can't be written ({error.strerror})", entry) from None
