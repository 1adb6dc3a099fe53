"""The entry by which VS Code starts the adapter, put into ``.vscode/launch.json``; and what other IDEs need."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dbg_client.actions.streams import write_result
from dbg_client.dap.messages import USUAL_TARGET
from dbg_dial.files import write_whole
from dbg_wire.errors import BadInput, printable

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<mark>[{}\[\],:])
  | (?P<plain>[^\s{}\[\],:"/]+)
    """,
    re.VERBOSE | re.DOTALL,
)

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


class NotRead(Exception):
    """Say that a text is no JSON with comments that is understood here; the caller refuses to change the file."""


def read(text: str) -> Any:
    """Return what the text says. Raises NotRead."""
    words = [word for kind, word, _ in _tokens(text) if kind != "blank"]
    # VS Code allows a comma behind the last entry.
    kept = [
        word for word, behind in zip(words, [*words[1:], ""], strict=True) if word != "," or behind not in ("]", "}")
    ]
    try:
        return json.loads(" ".join(kept))
    except (ValueError, RecursionError):
        raise NotRead from None


def begin_of_list(text: str, name: str) -> int:
    """Return the index behind the bracket that opens the list ``name`` of the outermost object. Raises NotRead."""
    depth, before = 0, ["", ""]
    for kind, word, end in _tokens(text):
        if kind == "blank":
            continue
        if word == "[" and depth == 1 and before == [json.dumps(name), ":"]:
            return end
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(word, 0) if kind == "mark" else 0
        before = [before[1], word]
    raise NotRead


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each token with its kind and the index behind it. Raises NotRead."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotRead
        at = match.end()
        yield str(match.lastgroup), match.group(), at


Entry = dict[str, Any]


def entry_for(target: str) -> Entry:
    """Return the entry that VS Code's own Python extension takes to run this adapter by this Python."""
    return {
        "name": f"Ranks: {target}",
        "type": "debugpy",
        "request": "attach",
        # The extension runs an adapter of its own for `listen`, which these two replace; nothing listens.
        "listen": {"port": 0},
        "debugAdapterPath": str(Path(__file__).parents[1] / "cli/ide.py"),
        "debugAdapterPython": sys.executable,
        "target": target,
    }


def write_entry(target: str | None) -> int:
    """Put the entry into the launch.json of the present folder, say how for others, and return the exit status.

    Raises BadInput, with the entry to put in by hand, for a file that can't be changed without harm.
    """
    target = target or USUAL_TARGET
    entry = entry_for(target)
    before = _content(FILE, entry)
    after = with_entry(before, entry)
    if after == before:
        told = f"{FILE} has the entry {printable(entry['name'])!r} already."
    else:
        _replace(FILE, after, entry)
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
            raise NotRead
        same = [at for at, one in enumerate(known) if isinstance(one, dict) and one.get("name") == entry["name"]]
        if same and known[same[0]] != entry:
            raise BadInput(f"{FILE} has another entry {entry['name']!r}", "remove it, or change its name")
        if same:
            return text
        at = begin_of_list(text, "configurations")
        ours = textwrap.indent(json.dumps(entry, indent=4, ensure_ascii=False), " " * 8)
        changed = f"{text[:at]}\n{ours}{',' if known else chr(10) + '    '}{text[at:]}"
        if read(changed) != {**document, "configurations": [entry, *known]}:
            raise NotRead
    except NotRead:
        raise BadInput(
            f"{FILE} is not understood as a list of configurations",
            f"put this into its list `configurations`:\n{_shown(entry)}",
        ) from None
    return changed


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


def _content(file: Path, entry: Entry) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise BadInput(
                f"{file} is longer than {MAX_FILE} bytes", f"put this into its list `configurations`:\n{_shown(entry)}"
            )
        return data.decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise BadInput(f"{file} is no UTF-8", f"put this into its list `configurations`:\n{_shown(entry)}") from None
    except OSError as error:
        raise BadInput(
            f"{file} can't be read ({error.strerror})", f"put this into its list `configurations`:\n{_shown(entry)}"
        ) from None


def _replace(file: Path, text: str, entry: Entry) -> None:
    """Write the whole file or nothing: VS Code reads it at any time."""
    try:
        file.parent.mkdir(exist_ok=True)
        real = file.resolve()
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o666 & ~_umask()
        write_whole(real, text, mode=mode)
    except OSError as error:
        raise BadInput(
            f"{file} can't be written ({error.strerror})", f"put this into its list `configurations`:\n{_shown(entry)}"
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
