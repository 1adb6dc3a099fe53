"""What ``dbg-attach adopt`` has a process run that nobody prepared: become a rank, and say which one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from dbg_agent.link import lookup
from dbg_agent.program.own_rank import current


def become_rank(variables: Mapping[str, str], install: Callable[[], None]) -> dict[str, object]:
    """Make this process a rank by ``install``, and return what came of it for the terminal.

    ``variables`` say where the broker is. They hold for the look-ups of this rank alone, and the environment of the
    program stays as it is. In the main thread the rank can be broken into afterwards, even if it was made before in
    another one. Raises what the imports raise.
    """
    rank = current()
    if rank is not None and (rank.break_in.installed or not _in_main_thread()):
        return {"outcome": "already", "key": rank.identity.key, "main": rank.break_in.installed}
    if rank is None:
        lookup.told.update(variables)
    install()
    rank = current()
    if rank is None:
        return {"outcome": "failed", "text": "it starts ranks, and is none itself"}
    return {"outcome": "adopted", "key": rank.identity.key, "main": rank.break_in.installed}


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
