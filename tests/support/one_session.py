"""Attach this terminal to one rank as ``dbg-attach`` does, and write to a file which breakpoints the user set there.

Arguments: the file, the target, and the debugger to open. Each breakpoint is ``[file, line, condition]``, in JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from dbg_client.core.choose import choose
from dbg_client.core.switchboard import switchboard_to
from dbg_client.terminal.options import SessionOptions
from dbg_client.terminal.session import Session
from dbg_client.words.config import Wish
from dbg_client.words.settings import AttachOptions
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.targets.selection import parse_target

SECONDS = 30.0


async def hold_session(target: str, engine: str) -> tuple[Breakpoint, ...]:
    switchboard = switchboard_to(None, SECONDS)
    await switchboard.open()
    try:
        rank = choose(parse_target(target), switchboard.directory.ranks).rank
        options = SessionOptions(attach=AttachOptions(wish=Wish(asked=engine)), colors=256, color=True)
        session = Session(switchboard, rank, options)
        await session.run()
        report = session.attachment.report
        return () if report is None else tuple(sorted(report.user_breakpoints, key=lambda one: (one.file, one.line)))
    finally:
        await switchboard.close()


def main() -> None:
    file, target, engine = sys.argv[1:]
    told = [[one.file, one.line, one.condition] for one in asyncio.run(hold_session(target, engine))]
    Path(file).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
