"""Measure what a recording costs a key: its echo through a broker that records, and through one that does not."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dbg_wire.codec import Input, Output
from tests.attacks.echo import next_data
from tests.attacks.target import Target
from tests.broker.peers import Peer, registration
from tests.support.broker import running_broker
from tests.support.processes import Processes

ROUNDS, KEYS = 60, 100
PAUSE = 0.003
"""Seconds between two keys."""

SCREEN = b"\x1b[12;40H\x1b[0;97;46mloss: 0.25  " * 40
"""What a step of PuDB draws: a kilobyte."""


class Typing:
    """A driver and a rank that draws a step for each key, at one broker."""

    def __init__(self, rank: Peer, driver: Peer, generation: int) -> None:
        self._rank, self._driver, self._generation = rank, driver, generation
        self._typed = self._drawn = 0
        self.echoes: list[float] = []

    @classmethod
    async def at(cls, home: Path) -> Typing:
        """Sit down at a rank of the broker that serves this home."""
        target = Target.of_home(home)
        rank = await target.rank(0)
        driver, seat = await target.seated(registration(0).key)
        return cls(rank, driver, seat.generation or 0)

    async def type(self, keys: int) -> None:
        """Type so many keys, and note how long each took to come back, in milliseconds."""
        for _ in range(keys):
            await asyncio.sleep(PAUSE)
            began = time.perf_counter()
            await self._driver.send(Input(1, 1, self._generation, self._typed, b"n"))
            await next_data(self._rank)
            await self._rank.send(Output(1, self._drawn, SCREEN))
            await self._driver.expect_data()
            self.echoes.append(1000 * (time.perf_counter() - began))
            self._typed, self._drawn = self._typed + 1, self._drawn + len(SCREEN)


async def compare(quiet: Path, recorded: Path) -> None:
    """Type at both brokers in turn, so that what else the machine does falls on both, and print their echoes."""
    both = [await Typing.at(quiet), await Typing.at(recorded)]
    for typing in both:
        await typing.type(KEYS)
        typing.echoes.clear()
    for number in range(ROUNDS):
        for typing in both if number % 2 else both[::-1]:
            await typing.type(KEYS)
    for name, typing in zip(("without", "with"), both, strict=True):
        median, p99 = statistics.median(typing.echoes), statistics.quantiles(typing.echoes, n=100)[98]
        print(f"{name:>7} --record: {len(typing.echoes)} keys, median {median:.3f} ms, p99 {p99:.2f} ms")
    quiet_median, recorded_median = (statistics.median(typing.echoes) for typing in both)
    print(f"the median grows by {100 * (recorded_median / quiet_median - 1):.1f} %")


def main() -> None:
    """Start two brokers and compare them."""
    with tempfile.TemporaryDirectory() as folder:
        homes = [Path(folder) / name for name in ("quiet", "recorded")]
        for home in homes:
            home.mkdir(mode=0o700)
        processes = Processes(Path(folder) / "logs")
        try:
            running_broker(processes, homes[0])
            running_broker(processes, homes[1], "--record", str(Path(folder) / "casts"), "--record-input")
            asyncio.run(compare(*homes))
            sizes = [path.stat().st_size for path in (Path(folder) / "casts").glob("*/*")]
            print(f"{len(sizes)} recording of {sum(sizes) / 1024:.0f} KiB")
        finally:
            processes.end_all()


if __name__ == "__main__":
    main()
