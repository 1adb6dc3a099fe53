"""``dap``, and the entry by which VS Code starts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from dbg_client.verbs.option import Operands, Option, read_port
from dbg_client.verbs.verb import Verb, refuse


class Dap(Verb):
    """Serve an IDE; ``port`` is where, 0 for a free one, None for stdin and stdout."""

    name = "dap"
    example = "dap train-4711/all"
    operands = Operands.MAYBE_TARGET

    target: str | None = None
    port: Annotated[
        int | None,
        Option(
            "--port",
            metavar="PORT",
            help="on a port of this host's loopback, 0 for a free one; IDEs come there with a secret, instead of stdin",
            read=read_port,
        ),
    ] = None
    no_secret: Annotated[
        bool,
        Option(
            "--no-secret",
            help="for an IDE that can't send the secret: every user of this host may connect to the port",
        ),
    ] = False
    vscode: Annotated[bool, Option("--vscode", help="print the entry for it in .vscode/launch.json")] = False

    def check(self) -> None:
        refuse(self.vscode and self.port is not None, "--vscode writes a file and --port serves an IDE")
        what = "--no-secret is for a port, and stdin and stdout have no need of a secret"
        refuse(self.no_secret and self.port is None, what, "add --port 0")

    def run(self) -> int:
        if self.vscode:
            from dbg_client.dap.messages import USUAL_TARGET
            from dbg_client.shell.streams import write_result

            write_result(entry_text(self.target or USUAL_TARGET))
            return 0
        import asyncio

        from dbg_client.dap.serve import serve_dap

        return asyncio.run(serve_dap(self))


def entry_for(target: str) -> dict[str, Any]:
    """Return the entry that VS Code's own Python extension takes to run this adapter by this Python."""
    return {
        "name": f"Ranks: {target}",
        "type": "debugpy",
        "request": "attach",
        # The extension runs an adapter of its own for `listen`, which these two replace; nothing listens.
        "listen": {"port": 0},
        "debugAdapterPath": str(Path(__file__).with_name("ide.py")),
        "debugAdapterPython": sys.executable,
        "target": target,
    }


def entry_text(target: str) -> str:
    """Return what a user puts into launch.json, and where."""
    entry = json.dumps(entry_for(target), indent=4, ensure_ascii=False)
    return f"Put this into the list `configurations` of .vscode/launch.json, and press F5:\n{entry}\n"
