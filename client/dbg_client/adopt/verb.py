"""The ``adopt`` command, which turns processes into ranks."""

from __future__ import annotations

from typing import Annotated

from dbg_client.verbs.option import Operands, Option
from dbg_client.verbs.verb import Verb
from dbg_wire.errors import BadInput, printable


class Adopt(Verb):
    """Turn processes into ranks; ``mine`` selects the user's processes on this host that a launcher has started."""

    name = "adopt"
    example = "adopt --mine"
    operands = Operands.PROCESSES

    pids: tuple[str, ...] = ()
    mine: Annotated[bool, Option("--mine", help="all your processes on this host that a launcher started")] = False

    def check(self) -> None:
        for text in self.pids:
            if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) < 1:
                raise BadInput(f"'{printable(text)}' is not a process number", "use numbers from `ps`, or --mine")
        if bool(self.pids) == self.mine:
            what = "--mine finds the processes itself" if self.mine else "adopt needs processes"
            raise BadInput(what, "write `adopt PID…` or `adopt --mine`")

    def run(self) -> int:
        import asyncio

        from dbg_client.adopt.adopt import adopt

        return asyncio.run(adopt(self))
