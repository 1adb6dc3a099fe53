"""``dap``."""

from __future__ import annotations

from typing import Annotated

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
            help="on a port of this host's loopback, 0 for a free one; an IDE comes there with a secret for one "
            "session, instead of stdin",
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
    vscode: Annotated[
        bool, Option("--vscode", help="print the entry for it in .vscode/launch.json, and those of other IDEs")
    ] = False

    def check(self) -> None:
        refuse(self.vscode and self.port is not None, "--vscode writes a file and --port serves an IDE")
        what = "--no-secret is for a port, and stdin and stdout have no need of a secret"
        refuse(self.no_secret and self.port is None, what, "add --port 0")

    def run(self) -> int:
        if self.vscode:
            from dbg_client.dap.ide_entries import show_entries

            return show_entries(self.target)
        import asyncio

        from dbg_client.dap.serve import serve_dap

        return asyncio.run(serve_dap(self))
