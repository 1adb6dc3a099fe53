"""The ``dap`` command, and the launch.json entry that makes VS Code start it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

from dbg_client.verbs.option import Operands, Option
from dbg_client.verbs.verb import Verb


class Dap(Verb):
    """Serve an IDE on stdin and stdout."""

    name = "dap"
    example = "dap train-4711/all"
    operands = Operands.MAYBE_TARGET

    target: str | None = None
    vscode: Annotated[bool, Option("--vscode", help="print an entry for .vscode/launch.json")] = False

    def run(self) -> int:
        if self.vscode:
            from dbg_client.dap.messages import USUAL_TARGET
            from dbg_client.shell.streams import write_result

            write_result(entry_text(self.target or USUAL_TARGET))
            return 0
        import asyncio

        from dbg_client.dap.adapter import serve_dap

        return asyncio.run(serve_dap(self))


def entry_for(target: str) -> dict[str, Any]:
    """Return the launch.json entry that makes VS Code's Python extension run this adapter with this Python."""
    return {
        "name": f"Ranks: {target}",
        "type": "debugpy",
        "request": "attach",
        # With `listen` the extension starts an adapter, which usually listens on a port. The next two keys make this
        # program the adapter, which does not listen.
        "listen": {"port": 0},
        "debugAdapterPath": __file__,
        "debugAdapterPython": sys.executable,
        "target": target,
    }


def entry_text(target: str) -> str:
    """Return the entry for launch.json, with instructions."""
    entry = json.dumps(entry_for(target), indent=4, ensure_ascii=False)
    return f"Put this into the list `configurations` of .vscode/launch.json, and press F5:\n{entry}\n"


def main() -> int:
    """Serve one IDE that runs this file, as VS Code does; arguments after the path are ignored."""
    from dbg_client.command_line.main import main as dbg_attach

    return dbg_attach(["dap"])


if __name__ == "__main__":
    sys.exit(main())
