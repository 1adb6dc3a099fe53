"""All faults that are tried: what each does, where, and the bounds that the figures are held to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dbg_broker.net.handshake_slots import HANDSHAKE_SECONDS
from dbg_wire.limits import SILENT_SECONDS
from tests.support.proxy import Direction, Proxy

if TYPE_CHECKING:
    from tests.full.hosts.stage import Stage

NOTICED_AT_ONCE = 2.0
"""Seconds after which a user sees that a connection has ended: the other end's kernel reports it at once."""

NOTICED_SILENT = SILENT_SECONDS + 2.5
"""Seconds after which a user sees that nothing comes any more: SILENT_SECONDS, and the intervals of what looks."""

BACK = 3.5
"""Seconds after the end of a fault until keys work: pauses between two attempts are 1.5 s at most, and a handshake."""

BACK_AFTER_LOSS = HANDSHAKE_SECONDS + BACK
"""The same where the fault ate a part of a handshake, which ends only when the broker gives it up."""

REPEATED = 12.0
"""The same after the first of several cuts: the pauses grow while connections end soon after they stand."""


class Shows(Enum):
    """What a user sees of a fault while it lasts."""

    NOTICE = "the terminal reports it"
    NOTICE_IF_QUIET = "a terminal reports it if it gets nothing meanwhile"
    NOTHING = "keys still work, or work again before a report"
    BLIND = "the terminal itself is suspended"


@dataclass(frozen=True)
class Fault:
    """One fault; ``noticed`` and ``back`` are bounds in seconds, and ``where`` the lanes that it hits."""

    name: str
    start: Callable[[Stage], None]
    end: Callable[[Stage], None]
    shows: Shows
    where: tuple[str, ...]
    noticed: float | None = None
    back: float = BACK

    @property
    def word(self) -> str:
        """Return a name for files and output."""
        return "".join(letter for letter in self.name.title() if letter.isalnum())


PROXIED = ("rank", "terminal", "both")
"""Lanes with a proxy on the connection of the rank, of the terminal, and of each."""


def at_proxies(act: Callable[[Proxy, Direction], object]) -> Callable[[Stage], None]:
    """Return what does this at all proxies; with the direction in which output goes."""

    def start(stage: Stage) -> None:
        for lane in stage.lanes.values():
            for leg, proxy in lane.way.proxies.items():
                act(proxy, "up" if leg == "rank" else "down")

    return start


mended = at_proxies(lambda proxy, _: proxy.mend())


def cut_repeatedly(up: int, down: int, times: int) -> Callable[[Stage], None]:
    """Return what cuts each connection so many times, after so many bytes in the direction in which output goes."""
    return at_proxies(lambda proxy, output: proxy.cut_after(up if output == "up" else down, output, times))


def mended_after(cuts: int) -> Callable[[Stage], None]:
    """Return what ends a fault, and fails unless each proxy has cut so many connections."""

    def end(stage: Stage) -> None:
        made = [proxy.cut_so_far for lane in stage.lanes.values() for proxy in lane.way.proxies.values()]
        assert min(made) >= cuts, f"the proxies made {made} cuts"
        mended(stage)

    return end


def on_host(number: int, *commands: str) -> Callable[[Stage], None]:
    """Return what runs these commands on the first or second of two hosts; ``{peer}`` is the other one's address."""

    def run(stage: Stage) -> None:
        assert stage.hosts is not None
        host, peer = stage.hosts[number - 1], stage.hosts[2 - number]
        for command in commands:
            done = host.run("sh", "-c", command.format(peer=peer.ip, port=stage.broker.port))
            assert done.returncode == 0, done.stderr

    return run


def at_both(*acts: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Return what does all of these."""

    def start(stage: Stage) -> None:
        for act in acts:
            act(stage)

    return start


def unplug(stage: Stage) -> None:
    """Cut the cable of the second host."""
    assert stage.hosts is not None
    stage.hosts[1].unplug()


def plug(stage: Stage) -> None:
    """Put the cable back."""
    assert stage.hosts is not None
    stage.hosts[1].plug()


def restart_broker(stage: Stage) -> None:
    """Start the killed broker again."""
    stage.broker.restart()


def to_ranks(number: int) -> Callable[[Stage], None]:
    """Return what sends a signal to the ranks of the lane without proxies."""

    def send(stage: Stage) -> None:
        for rank in stage.lanes["direct"].ranks:
            rank.signal(number)

    return send


def to_guards(number: int) -> Callable[[Stage], None]:
    """Return what sends a signal to the guards of the ranks of the lane without proxies."""

    def send(stage: Stage) -> None:
        for guard in stage.guards():
            os.kill(guard, number)

    return send


def to_terminals(number: int) -> Callable[[Stage], None]:
    """Return what sends a signal to the terminals of the lane without proxies."""

    def send(stage: Stage) -> None:
        for terminal in stage.terminals("direct"):
            terminal.signal(number)

    return send


def nothing(_stage: Stage) -> None:
    """Do nothing: the fault is over, or has no end."""


NETWORK = (
    Fault(
        "cut, and reset at each attempt",
        at_proxies(lambda proxy, _: proxy.cut()),
        mended, Shows.NOTICE, PROXIED, NOTICED_AT_ONCE,
    ),
    Fault(
        "cut, and refused at each attempt",
        at_proxies(lambda proxy, _: proxy.refuse()),
        mended, Shows.NOTICE, PROXIED, NOTICED_AT_ONCE,
    ),
    Fault("reset once", at_proxies(lambda proxy, _: proxy.reset()), mended, Shows.NOTHING, PROXIED),
    Fault("cut in the middle of a frame", cut_repeatedly(37, 37, 1), mended_after(2), Shows.NOTHING, PROXIED),
    Fault(
        "three cuts in the middle of the TLS handshake", cut_repeatedly(300, 600, 4), mended_after(8),
        Shows.NOTHING, PROXIED, back=REPEATED,
    ),
    Fault(
        "four cuts in the first messages", cut_repeatedly(1500, 3000, 4), mended_after(6),
        Shows.NOTHING, PROXIED, back=REPEATED,
    ),
    Fault(
        "half closed, towards where output goes",
        at_proxies(lambda proxy, output: proxy.half_close(output)),
        mended, Shows.NOTHING, PROXIED,
    ),
    Fault(
        "half closed, towards where keys go",
        at_proxies(lambda proxy, output: proxy.half_close("up" if output == "down" else "down")),
        mended, Shows.NOTHING, PROXIED,
    ),
    Fault(
        "all bytes lost",
        at_proxies(lambda proxy, _: proxy.swallow()),
        mended, Shows.NOTICE, PROXIED, NOTICED_SILENT, BACK_AFTER_LOSS,
    ),
    Fault(
        "bytes of output lost, keys arrive",
        at_proxies(lambda proxy, output: proxy.swallow(output)),
        mended, Shows.NOTICE, PROXIED, NOTICED_SILENT, BACK_AFTER_LOSS,
    ),
    Fault(
        "bytes of keys lost, output arrives",
        at_proxies(lambda proxy, output: proxy.swallow("up" if output == "down" else "down")),
        mended, Shows.NOTICE_IF_QUIET, PROXIED, NOTICED_SILENT, BACK_AFTER_LOSS,
    ),
    Fault(
        "stalled, nothing lost", at_proxies(lambda proxy, _: proxy.freeze()), mended, Shows.NOTICE, PROXIED,
        NOTICED_SILENT,
    ),
    Fault(
        "every byte 150 to 300 ms late",
        at_proxies(lambda proxy, _: proxy.delay(0.15, jitter=0.15)),
        mended, Shows.NOTHING, PROXIED, back=6.0,
    ),
    Fault("256 kbit/s", at_proxies(lambda proxy, _: proxy.throttle(32_000)), mended, Shows.NOTHING, PROXIED),
)  # fmt: skip
"""Faults that a proxy makes, at all of its lanes at once."""

PROCESSES = (
    Fault(
        "broker killed, and started again", lambda stage: stage.broker.kill(), restart_broker,
        Shows.NOTICE, ("direct",), NOTICED_AT_ONCE,
    ),
    Fault(
        "broker suspended", lambda stage: stage.broker.suspend(), lambda stage: stage.broker.resume(),
        Shows.NOTICE, ("direct",), NOTICED_SILENT,
    ),
    Fault(
        "rank suspended", to_ranks(signal.SIGSTOP), to_ranks(signal.SIGCONT),
        Shows.NOTICE, ("direct",), NOTICED_SILENT,
    ),
    Fault("terminal suspended", to_terminals(signal.SIGSTOP), to_terminals(signal.SIGCONT), Shows.BLIND, ("direct",)),
    Fault(
        "the rank's guard suspended", to_guards(signal.SIGSTOP), to_guards(signal.SIGCONT), Shows.NOTHING, ("direct",)
    ),
    Fault("the rank's guard killed", to_guards(signal.SIGKILL), nothing, Shows.NOTHING, ("direct",)),
)  # fmt: skip
"""Faults of processes, which the lane without proxies is watched for."""

KILLED_TERMINAL = Fault(
    "terminal killed, and another one opened", nothing, nothing, Shows.BLIND, ("terminal",), back=6.0
)
"""What ``test_processes.py`` tries by itself, since the terminal after it is another one."""

FLUSH = on_host(2, "iptables -F")

LOSS = "iptables -A {chain} -m statistic --mode random --probability 0.1 -j DROP"

SLOW = "tc qdisc add dev eth0 root tbf rate 256kbit burst 4kb latency 400ms"
FAST = "tc qdisc del dev eth0 root"

ONE_LEG = ("rank", "terminal")

HOSTS = (
    Fault("cable out", unplug, plug, Shows.NOTICE, PROXIED, NOTICED_SILENT),
    Fault(
        "packets to the broker lost",
        on_host(2, "iptables -A OUTPUT -d {peer} -j DROP"),
        FLUSH, Shows.NOTICE, ONE_LEG, NOTICED_SILENT,
    ),
    Fault(
        "packets from the broker lost",
        on_host(2, "iptables -A INPUT -s {peer} -j DROP"),
        FLUSH, Shows.NOTICE, ONE_LEG, NOTICED_SILENT,
    ),
    Fault(
        "a firewall resets every connection",
        on_host(
            2,
            "iptables -A OUTPUT -p tcp --dport {port} -j REJECT --reject-with tcp-reset",
            "iptables -A INPUT -p tcp --sport {port} -j REJECT --reject-with tcp-reset",
        ),
        FLUSH, Shows.NOTICE, ONE_LEG, NOTICED_SILENT,
    ),
    Fault(
        "every tenth packet lost, both ways",
        on_host(2, LOSS.format(chain="OUTPUT"), LOSS.format(chain="INPUT")),
        FLUSH, Shows.NOTHING, ONE_LEG, back=15.0,
    ),
    Fault(
        "a line of 256 kbit/s, both ways", at_both(on_host(1, SLOW), on_host(2, SLOW)),
        at_both(on_host(1, FAST), on_host(2, FAST)), Shows.NOTHING, ONE_LEG, back=12.0,
    ),
)  # fmt: skip
"""Faults of the kernel's network between two hosts; what a lane is named for is not on the broker's host."""

ALL = (*NETWORK, *PROCESSES, KILLED_TERMINAL, *HOSTS)
