"""The ``web`` command."""

from __future__ import annotations

from typing import Annotated

from dbg_client.verbs.attach_options import Engine
from dbg_client.verbs.option import Operands, Option, Preferred, read_port
from dbg_client.verbs.preferences import EngineSpec, read_engine
from dbg_client.verbs.table import SAVED_JOB, load
from dbg_client.verbs.verb import Verb
from dbg_dial.home import ENGINE
from dbg_wire.errors import NeedsExtra


class Web(Verb):
    """Serve a page of ranks, or of the report in ``files``.

    ``port`` is the port to listen on, 0 for a free one; ``drive`` allows the page to act.
    """

    name = "web"
    example = "web --drive train-4711/all"
    operands = Operands.MAYBE_FILES

    target: str | None = None
    files: tuple[str, ...] = ()
    asked_engine: Engine = None
    default_engine: Annotated[str | None, Preferred(ENGINE, read_engine)] = None
    port: Annotated[
        int,
        Option(
            "--port",
            metavar="PORT",
            help="listen on this loopback port; 0 (default) picks a free one",
            read=read_port,
        ),
    ] = 0
    drive: Annotated[bool, Option("--drive", help="let the page act: type, evaluate, interrupt, resume, kill")] = False

    @property
    def spec(self) -> EngineSpec:
        """The debugger that the page's terminals open."""
        return EngineSpec(self.asked_engine, self.default_engine)

    def run(self) -> int:
        import asyncio
        from importlib.util import find_spec

        if find_spec("aiohttp") is None:
            raise NeedsExtra("the page", "aiohttp", "web")
        from dbg_client.web.serve import serve_web  # imported here, because other verbs need no server

        saved = load(SAVED_JOB)(self.files, self.target) if self.files or self.target else None
        return asyncio.run(serve_web(self, saved))
