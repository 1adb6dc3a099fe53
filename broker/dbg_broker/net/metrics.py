"""Counters and measurements of the broker in Prometheus format. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from dbg_broker.net.loop import BOUNDS, Histogram, KeyWaits
from dbg_wire.records.ranks import RankState


@dataclass(slots=True)
class Meters:
    """Counters of events, and callbacks that return current numbers."""

    handshakes: int = 0
    refusals: Counter[int] = field(default_factory=Counter)
    failures: int = 0
    turned_away: int = 0
    crowded_out: int = 0
    bytes_from_ranks: int = 0
    bytes_to_ranks: int = 0
    bytes_to_terminals: int = 0
    dropped_frames: int = 0
    disconnected: int = 0
    key_waits: KeyWaits = field(default_factory=KeyWaits)
    pending: Callable[[], int] = int
    """Returns the number of connections that are not authenticated yet."""
    audit_lost: Callable[[], int] = int
    """Returns the number of lost entries of the audit log; its own thread counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """Number of brokers, and seconds without an answer from NATS."""

    brokers: int
    nats_silent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Current numbers; ``uptime`` is in seconds."""

    ranks: Mapping[RankState, int]
    terminals: int
    sessions: int
    drivers: int
    watchers: int
    uptime: float
    cluster: ClusterFigures | None = None
    """Numbers of the cluster, or None for a single broker."""


def metrics(meters: Meters, gauges: Gauges) -> str:
    """Return counters and gauges in Prometheus format; they contain no secret, so the page needs no token."""
    parts = (
        _gauges(gauges),
        _counters(meters),
        _of_cluster(gauges.cluster),
        _histogram("key_wait_cpu_seconds", "Processor time of the broker while keys waited.", meters.key_waits.seconds),
    )
    return "".join(f"{line}\n" for part in parts for line in part)


def _gauges(gauges: Gauges) -> Iterable[str]:
    states = {f'{{state="{state.value}"}}': float(gauges.ranks.get(state, 0)) for state in RankState}
    yield from _one("uptime_seconds", "gauge", "Seconds since the broker started.", round(gauges.uptime, 3))
    yield from _many("ranks", "gauge", "Ranks by state.", states)
    yield from _one("terminals", "gauge", "Terminals connected.", gauges.terminals)
    yield from _one("sessions", "gauge", "Ranks with a terminal attached.", gauges.sessions)
    yield from _one("drivers", "gauge", "Terminals that type at a rank.", gauges.drivers)
    yield from _one("watchers", "gauge", "Terminals that watch a rank.", gauges.watchers)


def _counters(meters: Meters) -> Iterable[str]:
    refusals = {f'{{status="{status}"}}': float(count) for status, count in sorted(meters.refusals.items())}
    yield from _one("handshakes_total", "counter", "WebSocket handshakes completed.", meters.handshakes)
    yield from _one("handshake_failures_total", "counter", "Connections without a valid request.", meters.failures)
    yield from _one("turned_away_total", "counter", "Connections rejected by --allow.", meters.turned_away)
    crowded = "Connections closed because too many waited, or sent nothing."
    yield from _one("crowded_out_total", "counter", crowded, meters.crowded_out)
    yield from _one("pending", "gauge", "Connections that are not authenticated yet.", meters.pending())
    yield from _many("refusals_total", "counter", "Requests refused, by HTTP status.", refusals)
    yield from _one("rank_bytes_total", "counter", "Terminal bytes from ranks.", meters.bytes_from_ranks)
    yield from _one("input_bytes_total", "counter", "Input bytes to ranks.", meters.bytes_to_ranks)
    yield from _one("terminal_bytes_total", "counter", "Bytes queued for terminals.", meters.bytes_to_terminals)
    yield from _one("dropped_frames_total", "counter", "Frames dropped for slow terminals.", meters.dropped_frames)
    slow = "Terminals closed because they did not keep up, or were silent."
    yield from _one("slow_disconnects_total", "counter", slow, meters.disconnected)
    lost = "Entries lost by the audit log because a disk was slow or full."
    yield from _one("audit_lost_total", "counter", lost, meters.audit_lost())


def _of_cluster(found: ClusterFigures | None) -> Iterable[str]:
    if found is None:
        return
    yield from _one("cluster_brokers", "gauge", "Brokers of the cluster, this one included.", found.brokers)
    yield from _one("nats_silent_seconds", "gauge", "Seconds without an answer from NATS.", round(found.nats_silent, 3))


def _histogram(name: str, help_text: str, histogram: Histogram) -> Iterable[str]:
    bounds = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
    yield from _head(name, "histogram", help_text)
    for bound, count in zip(bounds, accumulate(histogram.counts), strict=True):
        yield f'dbg_broker_{name}_bucket{{le="{bound}"}} {count}'
    yield f"dbg_broker_{name}_sum {histogram.total:.9g}"
    yield f"dbg_broker_{name}_count {sum(histogram.counts)}"


def _one(name: str, kind: str, help_text: str, value: float) -> Iterable[str]:
    return _many(name, kind, help_text, {"": value})


def _many(name: str, kind: str, help_text: str, values: Mapping[str, float]) -> Iterable[str]:
    yield from _head(name, kind, help_text)
    for labels, value in values.items():
        yield f"dbg_broker_{name}{labels} {value:.15g}"


def _head(name: str, kind: str, help_text: str) -> Iterable[str]:
    yield f"# HELP dbg_broker_{name} {help_text}"
    yield f"# TYPE dbg_broker_{name} {kind}"
