"""The certificate of a broker that serves, looked at each day: renewed files are taken, and an end is warned of."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from dbg_broker.home.certificate import Shown
from dbg_broker.home.tokens import Tokens
from dbg_broker.home.validity import DAY_SECONDS, is_soon, read_validity, until
from dbg_wire.errors import DbgError

logger = logging.getLogger("dbg_broker")

ReadAgain = Callable[[Callable[["Tokens | DbgError"], None]], None]
"""Has tokens and certificate read anew and used, and calls back."""

Tell = Callable[[float], None]
"""Takes the end of the certificate, in seconds since the epoch."""


async def look_each_day(
    present: Callable[[], Shown | None], source: Callable[[], Shown], read_again: ReadAgain, tell: Tell
) -> None:
    """Look at the certificate that is ``present`` until cancelled; ``tell`` gets its end in seconds since the epoch.

    What ``source`` gives is taken if it is another one: files that the user has named and that were renewed.
    """
    loop = asyncio.get_running_loop()
    while True:
        # In a thread, since the disk may hang and since a library that reads certificates loads slowly.
        renewed = await loop.run_in_executor(None, _renewed, present(), source)
        if renewed:
            taken = loop.create_future()
            read_again(taken.set_result)
            if isinstance(error := await taken, DbgError):
                logger.error("the certificate can't be read anew: %s", error)
        shown = present()
        if shown is not None:
            ends = (await loop.run_in_executor(None, read_validity, shown.certificate)).ends
            tell(ends)
            now = time.time()
            if is_soon(ends, now):
                logger.warning("the broker's certificate is near its end: %s", until(ends, now))
        await asyncio.sleep(DAY_SECONDS)


def _renewed(present: Shown | None, source: Callable[[], Shown]) -> bool:
    try:
        return present is not None and source().fingerprint != present.fingerprint
    except DbgError as error:
        logger.error("the certificate can't be read anew: %s", error)
        return False
