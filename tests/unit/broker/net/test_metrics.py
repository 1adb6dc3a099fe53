"""The page that Prometheus reads."""

from __future__ import annotations

import re
from dataclasses import replace

from dbg_broker.home.tokens import Tokens
from dbg_broker.net.http import PROMETHEUS, page
from dbg_broker.net.loop import LoopTimes
from dbg_broker.net.metrics import Budget, ClusterFigures, Gauges, Meters, Payer, Recorded, metrics
from dbg_wire.records.ranks import RankState

TIMES = LoopTimes(lambda: 0.0, lambda: 0.0)
TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)
GAUGES = Gauges(
    ranks={RankState.STOPPED: 3}, terminals=2, sessions=1, drivers=1, watchers=1, pending=0, uptime=1234567.125
)


def samples_of(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_metrics_are_what_prometheus_reads() -> None:
    meters = Meters(handshakes=5, bytes_from_ranks=10**12)
    meters.refusals.update([401, 401, 426])
    meters.budgets.hit(Payer.STRANGER, Budget.WAITING)
    answer = page("/metrics", meters, GAUGES, TIMES, TOKENS)
    assert answer is not None
    assert answer.content_type == PROMETHEUS
    samples = samples_of(answer.body)
    assert samples['dbg_broker_ranks{state="stopped"}'] == "3"
    assert samples['dbg_broker_ranks{state="lost"}'] == "0"
    assert samples['dbg_broker_refusals_total{status="401"}'] == "2"
    assert samples['dbg_broker_budget_hits_total{role="stranger",budget="waiting"}'] == "1"
    assert samples["dbg_broker_rank_bytes_total"] == "1000000000000"
    assert samples["dbg_broker_uptime_seconds"] == "1234567.125"
    label = r'[a-z]+="[A-Za-z0-9_.+]+"'
    assert all(re.fullmatch(rf"[a-z_]+(\{{{label}(,{label})*\}})?", name) for name in samples)


def test_what_the_audit_log_has_lost_is_counted() -> None:
    samples = samples_of(metrics(Meters(audit_lost=lambda: 7), GAUGES, TIMES))
    assert samples["dbg_broker_audit_lost_total"] == "7"


def test_recordings_are_counted_where_there_are_any() -> None:
    assert "record" not in metrics(Meters(), GAUGES, TIMES)
    recorded = Recorded(open=1, begun=2, bytes=3, lost=4, removed=5)
    samples = samples_of(metrics(Meters(), replace(GAUGES, recorded=recorded), TIMES))
    names = ("recordings", "recordings_total", "recorded_bytes_total", "recording_lost_bytes_total")
    assert [samples[f"dbg_broker_{name}"] for name in names] == ["1", "2", "3", "4"]


def test_every_sample_has_a_type() -> None:
    text = metrics(Meters(), replace(GAUGES, recorded=Recorded(open=0, begun=0, bytes=0, lost=0, removed=0)), TIMES)
    typed = set(re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", text, re.MULTILINE))
    for histogram in re.findall(r"^# TYPE (\S+) histogram$", text, re.MULTILINE):
        typed |= {f"{histogram}_{part}" for part in ("bucket", "sum", "count")}
    assert {re.split(r"[{ ]", name)[0] for name in samples_of(text)} <= typed


def test_the_classes_of_a_histogram_add_up() -> None:
    times = LoopTimes(lambda: 0.0, lambda: 0.0)
    for late in (0.0, 0.049, 0.051, 100.0):
        times.timer_ran(late)
    samples = samples_of(metrics(Meters(), GAUGES, times))
    name = "dbg_broker_loop_delay_seconds"
    assert samples[f'{name}_bucket{{le="0.04"}}'] == "1"
    assert samples[f'{name}_bucket{{le="0.05"}}'] == "2"
    assert samples[f'{name}_bucket{{le="0.1"}}'] == "3"
    assert samples[f'{name}_bucket{{le="+Inf"}}'] == samples[f"{name}_count"] == "4"
    assert samples[f"{name}_sum"] == "100.1"


def test_a_broker_of_a_cluster_tells_of_nats_and_of_the_others() -> None:
    assert "cluster" not in metrics(Meters(), GAUGES, TIMES)
    figures = ClusterFigures(brokers=3, nats_silent=12.5, claims_waiting=4, sent=5, received=6, refused=7, gaps=8)
    samples = samples_of(metrics(Meters(), replace(GAUGES, cluster=figures), TIMES))
    names = ("cluster_brokers", "nats_silent_seconds", "claims_waiting", "cluster_sent_total")
    more = ("cluster_received_total", "cluster_refused_total", "cluster_gaps_total")
    assert [samples[f"dbg_broker_{name}"] for name in (*names, *more)] == ["3", "12.5", "4", "5", "6", "7", "8"]
