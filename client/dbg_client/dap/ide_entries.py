"""The entries by which IDEs start the adapter, as a user puts them into the IDE's own file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dbg_client.dap.messages import USUAL_TARGET
from dbg_client.shell.streams import write_result

_ENTRIES = """\
VS Code: put this into the list `configurations` of .vscode/launch.json, choose it in Run and Debug (Ctrl+Shift+D),
and press F5:
{entry}

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


def entry_for(target: str) -> dict[str, Any]:
    """Return the entry that VS Code's own Python extension takes to run this adapter by this Python."""
    return {
        "name": f"Ranks: {target}",
        "type": "debugpy",
        "request": "attach",
        # The extension runs an adapter of its own for `listen`, which these two replace; nothing listens.
        "listen": {"port": 0},
        "debugAdapterPath": str(Path(__file__).parents[2] / "dap/ide.py"),
        "debugAdapterPython": sys.executable,
        "target": target,
    }


def show_entries(target: str | None) -> int:
    """Print the entry of VS Code and those of other IDEs, and return the exit status."""
    target = target or USUAL_TARGET
    beside = Path(sys.argv[0])
    command = str(beside.absolute()) if beside.name == "dbg-attach" else "dbg-attach"
    shown = _ENTRIES.format(
        entry=json.dumps(entry_for(target), indent=4, ensure_ascii=False),
        target=target,
        # Lua's quotes take what JSON's do, as far as targets have it.
        command=json.dumps(command),
        name=json.dumps(f"Ranks: {target}"),
        lua_target=json.dumps(target),
    )
    write_result(shown)
    return 0
