"""The ``mcp`` command."""

from __future__ import annotations

from dbg_client.verbs.option import Operands
from dbg_client.verbs.verb import Verb


class Mcp(Verb):
    """Serve the ranks as tools to a coding agent, by MCP on stdin and stdout."""

    name = "mcp"
    example = "mcp"
    operands = Operands.NONE

    def run(self) -> int:
        import asyncio

        from dbg_client.mcp.server import serve_mcp

        return asyncio.run(serve_mcp(self.broker))
